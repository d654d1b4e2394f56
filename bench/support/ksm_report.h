/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_report.h - what bench_ksm measured, and its medians. */
#ifndef BENCH_KSM_REPORT_H
#define BENCH_KSM_REPORT_H

#include "ksm_options.h"
#include "ksm_sides.h"

/** Of one side, a value for each round. */
struct ksm_series {
	double cpu_s[KSM_ROUNDS_MAX], wall_s[KSM_ROUNDS_MAX], passes[KSM_ROUNDS_MAX];
	double saved[KSM_ROUNDS_MAX], shared[KSM_ROUNDS_MAX], zero[KSM_ROUNDS_MAX];
	double looks[KSM_ROUNDS_MAX], mappings[KSM_ROUNDS_MAX];
	double idle_ns[KSM_ROUNDS_MAX], idle_looks[KSM_ROUNDS_MAX];
};

/** @param series  of KSM_SIDE_KSMD, KSM_SIDE_OURS */
void ksm_report(const struct ksm_options *options, const struct ksm_series series[2]);

#endif
