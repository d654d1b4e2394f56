/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scan.cc - an embedder in C++17, compiled and started by cplusplus.sh: of 600 pages of three
 * contents all share a frame after two passes; one is written, and has memory of its own again.
 * Nobody writes in a step here, so that holding a page is nothing.
 */
#include <pagededup/advisor.h>
#include <pagededup/scanner.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::uint64_t npages = 600;
using page = std::array<unsigned char, page_bytes>;

struct frame {
	pdd_frame part; // the library's
	page bytes;
};

struct memory {
	std::vector<page> own{npages};
	std::vector<frame *> shown = std::vector<frame *>(npages); // nullptr: its own
	std::vector<std::unique_ptr<frame>> frames;
	std::size_t nfreed = 0;

	const page &at(std::uint64_t i) const
	{
		return shown[i] ? shown[i]->bytes : own[i];
	}

	void write(std::uint64_t i, unsigned char value)
	{
		own[i] = at(i);
		own[i][0] = value;
		shown[i] = nullptr;
	}
};

memory *of(void *ctx)
{
	return static_cast<memory *>(ctx);
}

frame *of(pdd_frame *part)
{
	return reinterpret_cast<frame *>(part); // its first member
}

int describe(void *ctx, pdd_region *, pdd_view *views, std::uint32_t nviews, std::uint64_t first,
	     std::uint64_t n)
{
	std::uint32_t i = 0;

	for (; i < nviews && i < n; i++) {
		views[i] = pdd_view{};
		views[i].npages = 1;
		views[i].kind = of(ctx)->shown[first + i] ? PDD_PAGE_SHARED : PDD_PAGE_PRIVATE;
		if (!of(ctx)->shown[first + i])
			views[i].content = &of(ctx)->own[first + i];
	}
	return static_cast<int>(i);
}

void leave(void *, pdd_region *, std::uint64_t, std::uint64_t)
{
}

int create(void *ctx, pdd_frame **frames, const pdd_frame_wish *wishes, std::uint32_t n,
	   std::uint32_t)
{
	for (std::uint32_t i = 0; i < n; i++) {
		of(ctx)->frames.push_back(std::make_unique<frame>());
		std::memcpy(&of(ctx)->frames.back()->bytes, wishes[i].content, page_bytes);
		frames[i] = &of(ctx)->frames.back()->part;
	}
	return static_cast<int>(n);
}

int map(void *ctx, pdd_region *, std::uint64_t first, pdd_frame *const *frames, std::uint64_t n)
{
	for (std::uint64_t i = 0; i < n; i++)
		of(ctx)->shown[first + i] = of(frames[i]);
	return static_cast<int>(n);
}

int unmap(void *ctx, pdd_region *, std::uint64_t first, std::uint64_t n)
{
	for (std::uint64_t i = first; i < first + n; i++)
		of(ctx)->write(i, of(ctx)->at(i)[0]);
	return static_cast<int>(n);
}

pdd_ops hooks()
{
	pdd_ops ops{};

	ops.size = sizeof(ops);
	ops.space_trylock = [](void *, pdd_space *) { return true; };
	ops.space_unlock = [](void *, pdd_space *) {};
	ops.pages_get = ops.hold = describe;
	ops.pages_put = ops.release = leave;
	ops.frames_create = create;
	ops.frames_map = map;
	ops.frames_unmap = unmap;
	ops.frame_content = [](void *, pdd_frame *f) -> const void * { return &of(f)->bytes; };
	ops.frame_free = [](void *ctx, pdd_frame *) { of(ctx)->nfreed++; };
	return ops;
}

#define REQUIRE(condition)                                                        \
	do {                                                                      \
		if (!(condition)) {                                               \
			std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			return 1;                                                 \
		}                                                                 \
	} while (0)

bool pass(pdd_scanner &scanner, pdd_worker &worker)
{
	const pdd_budget budget = {npages, 0};
	int step;

	while ((step = pdd_scanner_step(&scanner, &worker, &budget)) == PDD_STEP_MORE)
		;
	return step == PDD_STEP_PASS;
}

} // namespace

int main()
{
	std::vector<pdd_rbroot> roots(npages);
	std::vector<pdd_extent> extents(pdd_region_extents(npages));
	std::vector<pdd_item> items(npages);
	const std::vector<unsigned char> secret(PDD_SECRET_LEN_MAX, 7);
	auto scanner = std::make_unique<pdd_scanner>();
	auto worker = std::make_unique<pdd_worker>();
	pdd_scanner_options options{};
	pdd_stats stats{};
	pdd_space space{};
	pdd_region region{};
	const char *why = nullptr;
	const pdd_ops ops = hooks();
	memory memory;

	for (std::uint64_t i = 0; i < npages; i++)
		memory.own[i].fill(static_cast<unsigned char>(1 + i % 3));
	options.size = sizeof(options);
	options.roots = roots.data();
	options.nroots = roots.size();
	options.secret = secret.data();
	options.secret_len = secret.size();
	REQUIRE(pdd_scanner_init(scanner.get(), &ops, &memory, &options) == 0);
	REQUIRE(pdd_space_add(scanner.get(), &space, 0) == 0);
	REQUIRE(pdd_region_add(&space, &region, 0, npages, extents.data(), items.data()) == 0);
	REQUIRE(pass(*scanner, *worker) && pass(*scanner, *worker));

	stats.size = sizeof(stats);
	REQUIRE(pdd_scanner_stats(scanner.get(), &stats) == 0);
	REQUIRE(stats.pages_shared == 3 && stats.pages_sharing == npages - 3);
	REQUIRE(pdd_scanner_check(scanner.get(), &why) == 0);

	memory.write(5, 99);
	REQUIRE(pass(*scanner, *worker));
	REQUIRE(pdd_scanner_stats(scanner.get(), &stats) == 0);
	REQUIRE(stats.pages_sharing == npages - 4 && stats.counts.unshares == 1);

	while (pdd_scanner_unmerge(scanner.get(), npages) > 0)
		;
	REQUIRE(memory.nfreed == 3 && memory.frames.size() == 3);
	REQUIRE(pdd_region_remove(&region) == 0 && pdd_space_remove(&space) == 0);
	for (std::uint64_t i = 0; i < npages; i++)
		REQUIRE(!memory.shown[i] && memory.own[i][1] == 1 + i % 3);
	std::printf("%d pages shared 3 frames\n", static_cast<int>(npages));
	return 0;
}
