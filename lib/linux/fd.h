/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd.h - descriptors that nobody takes for a standard stream. Private.
 */
#ifndef PDDI_LINUX_FD_H
#define PDDI_LINUX_FD_H

#include <fcntl.h>
#include <unistd.h>

/* The descriptor under a number above those of the standard streams, whatever the program closed: a
 * message to a closed stderr must not land in ours. -1 stays -1, and errno. */
static inline int pddi_fd_above_stdio(int fd)
{
	int above;

	if (fd < 0 || fd > 2)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return above;
}

#endif
