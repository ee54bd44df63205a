/* cut.c - which kernel makes a product, and how much of it one item makes. */
#include "families/cut.h"

#include <stdio.h>
#include <string.h>

#define TILE 32 /* of kernels/gemm.k */

/* ---- what the cost model says ---------------------------------------------------- */

/* Columns of a tile of gemm_wide.k. */
static int64_t wide_tile(const fam_plan *plan, const fam_work *w) {
  return 2 * (int64_t)plan->wide / (kd_dtype_size(w->sums) == 8 ? 2 : 1);
}

static int64_t parts(int64_t whole, int64_t part) {
  return (whole + part - 1) / part;
}

/* Rows that an item makes at once fit the registers that there are of vectors; it makes so
 * many that some items are left for all processors. */
static fam_cut wide_cut(const fam_plan *plan, const fam_work *w) {
  int64_t rows = w->m == 1 ? 1 : w->m <= 4 ? 4 : plan->wide < 16 ? 6 : 12;
  int64_t tiles = w->batches * parts(w->n, wide_tile(plan, w)), block = 60;
  while (block > rows && tiles * parts(w->m, block) < 32)
    block = parts(block / 2, rows) * rows;
  return (fam_cut){"gemm_wide", rows, block};
}

/* How many columns an item makes so that all take least: what reading an element, or a pair,
 * costs, and a sum, are as lavapipe's, in cycles. */
static int64_t columns_for(const fam_plan *plan, const fam_work *w,
                           int64_t rows) {
  enum { READ = 90, SUM = 2, LEAST = 1, MOST = 8 };
  int64_t best = MOST, least = INT64_MAX, lanes = plan->lanes;
  int64_t each = w->pairs ? 2 : 1;
  for (int64_t c = MOST; c >= LEAST; c -= each) {
    int64_t reads = parts(rows, lanes) * (w->a_pairs ? 1 : 2) + 2 * c / each;
    int64_t cost = parts(w->n, lanes * c) * (reads * READ / 2 + rows * c * SUM);
    if (cost >= least) continue;
    least = cost;
    best = c;
  }
  return best;
}

/* Columns of depth_lanes.k, so that few of a strip lie beside the image: at most `most`. */
static int64_t strip_for(const fam_plan *plan, const window *w, int64_t most) {
  int64_t strip = plan->lanes * (w->stride[1] == 1 ? 2 : 1);
  int64_t all = parts(w->out[1], strip);
  return parts(all, parts(all, most));
}

static fam_cut lanes_cut(const fam_plan *plan, const fam_work *w) {
  int64_t lanes = plan->lanes, m = w->m;
  if (w->lines)
    return (fam_cut){
        "depth_lanes", w->lines->out[0] < 4 ? 2 : 4,
        strip_for(plan, w->lines, w->lines->kernel[1] > 3 ? 2 : 4)};
  /* the driver's compiler takes long over many rows: only where there is much to do */
  double work = (double)m * (double)w->n * (double)w->k;
  int64_t rows = m == 1                      ? 1
                 : m <= lanes                ? lanes
                 : w->n <= lanes && m > 16   ? 32
                 : m <= 16 || work < 1 << 21 ? 16
                 : m <= 32 || work < 1 << 25 ? 32
                                             : 64;
  return (fam_cut){w->slides ? "slide_lanes" : "gemm_lanes", rows,
                   columns_for(plan, w, rows)};
}

static bool has_lanes(const fam_plan *plan, const fam_work *w) {
  return plan->lanes && (w->sums == KD_F32 || w->sums == KD_I32);
}

/* With fast memory of its own a group shares tiles; a processor keeps sums in registers;
 * else an item has a column of some rows to itself. */
static fam_cut model_cut(const fam_plan *plan, const fam_work *w) {
  if (plan->shared) return (fam_cut){"gemm", TILE, TILE};
  if (plan->wide) return wide_cut(plan, w);
  if (has_lanes(plan, w)) return lanes_cut(plan, w);
  return (fam_cut){"gemm_direct", w->m > 1 ? 8 : 1, 1};
}

/* ---- what there is beside it -------------------------------------------------------- */

void fam_cut_text(const fam_cut *cut, char *text, size_t size) {
  snprintf(text, size, "%s %lldx%lld", cut->kernel, (long long)cut->rows,
           (long long)cut->columns);
}

static bool is_cut(const fam_cut *a, const fam_cut *b) {
  return !strcmp(a->kernel, b->kernel) && a->rows == b->rows &&
         a->columns == b->columns;
}

static void offer(fam_pass *pass, const char *kernel, int64_t rows,
                  int64_t columns) {
  fam_cut cut = {kernel, rows, columns};
  for (uint32_t i = 0; i < pass->cut_count; i++)
    if (is_cut(&pass->cuts[i], &cut)) return;
  if (pass->cut_count < FAM_CUTS) pass->cuts[pass->cut_count++] = cut;
}

static void offer_wide(fam_pass *pass, const fam_plan *plan,
                       const fam_work *w) {
  static const int64_t rows[] = {1, 4, 6, 8, 12};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i] > 1 && rows[i] >= w->m + 4) continue;
    if (rows[i] == 12 && plan->wide < 16) continue;
    int64_t most = 60 / rows[i] * rows[i];
    for (int64_t block = most; block >= rows[i]; block /= 2)
      offer(pass, "gemm_wide", rows[i], parts(block, rows[i]) * rows[i]);
  }
}

static void offer_lanes(fam_pass *pass, const fam_plan *plan,
                        const fam_work *w) {
  static const int64_t columns[] = {8, 6, 4, 3, 2, 1};
  int64_t lanes = plan->lanes;
  for (int64_t rows = w->m == 1 ? 1 : lanes; rows <= 64; rows *= 2) {
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
      bool fits = i + 1 == sizeof columns / sizeof *columns ||
                  lanes * (columns[i] - 1) < w->n;
      if (!fits) continue;
      bool pairs = !w->pairs || columns[i] % 2 == 0;
      if (rows * columns[i] <= 256 && pairs)
        offer(pass, "gemm_lanes", rows, columns[i]);
      if (w->slides) offer(pass, "slide_lanes", 1, columns[i]);
      if (w->lines && columns[i] == strip_for(plan, w->lines, columns[i]) &&
          columns[i] < 8)
        for (int64_t lines = 2; lines <= 8; lines *= 2)
          offer(pass, "depth_lanes", lines, columns[i]);
    }
    if (rows == 1 || rows >= w->m) break;
  }
}

static void offer_all(fam_pass *pass, const fam_plan *plan, const fam_work *w) {
  pass->cuts[pass->cut_count++] = pass->cut;
  if (plan->shared) {
    for (int64_t rows = w->m > 1 ? 4 : 1; rows <= 16; rows *= 2) {
      offer(pass, "gemm_direct", rows, 1);
      if (rows >= w->m) break;
    }
  } else if (plan->wide) {
    offer_wide(pass, plan, w);
  } else if (has_lanes(plan, w)) {
    offer_lanes(pass, plan, w);
  } else {
    for (int64_t rows = 1; rows <= 16; rows *= 2)
      if (rows < 2 * w->m) offer(pass, "gemm_direct", rows, 1);
  }
}

/* ---- cutting -------------------------------------------------------------------------- */

static void cut_wide(fam_plan *plan, fam_pass *pass, const fam_work *w,
                     const fam_cut *cut) {
  int64_t tile = wide_tile(plan, w);
  const char *type = kd_dtype_name(w->sums);
  fam_define(pass, "WIDTH", "%d", (int)tile / 2);
  fam_define(pass, "WIDE", "WIDE_%s(WIDTH)", type);
  fam_define(pass, "MAD", "MAD_%s", type);
  fam_define(pass, "ROWS", "%d", (int)cut->rows);
  fam_int(plan, pass, "BLOCK", cut->columns);
  fam_groups(pass, w->batches * parts(w->n, tile) * parts(w->m, cut->columns),
             1);
}

/* In the registers of a subgroup, which runs in the lanes of vectors. */
static void cut_lanes(fam_plan *plan, fam_pass *pass, const fam_work *w,
                      const fam_cut *cut) {
  pass->trades = true;
  fam_define(pass, "ROWS", "%d", (int)cut->rows);
  fam_define(pass, "COLUMNS", "%d", (int)cut->columns);
  fam_define(pass, "PAIRS", "%d", w->pairs);
  fam_define(pass, "A_PAIRS", "%d", w->a_pairs);
  fam_define(pass, "K_PAIRS", "%d", w->k_pairs);
  fam_define(pass, "FLAT", "%d", w->flat);
  fam_define(pass, "SINGLE_END", "%d", (int)(w->n % 2));
  fam_groups(pass,
             w->batches * parts(w->m, cut->rows) *
                 parts(w->n, plan->lanes * cut->columns),
             plan->lanes);
}

/* In lines of an image: depth_lanes.k. */
static void cut_lines(fam_plan *plan, fam_pass *pass, const fam_work *w,
                      const fam_cut *cut) {
  const window *l = w->lines;
  int64_t sides = l->stride[1] == 1 ? 2 : 1;
  int64_t strip = plan->lanes * cut->columns * sides;
  int64_t most = strip < l->out[1] ? strip : l->out[1];
  int64_t reach =
      (most - 1) * l->stride[1] + (l->kernel[1] - 1) * l->dilation[1] + 1;
  int64_t vectors = parts(reach, 2 * plan->lanes);
  pass->trades = true;
  fam_define(pass, "ROWS", "%d", (int)cut->rows);
  fam_define(pass, "COLUMNS", "%d", (int)cut->columns);
  fam_define(pass, "SIDES", "%d", (int)sides);
  fam_define(pass, "VECTORS", "%d",
             (int)(vectors > cut->columns ? vectors : cut->columns));
  fam_define(pass, "TAPS_Y", "%d", (int)l->kernel[0]);
  fam_define(pass, "TAPS_X", "%d", (int)l->kernel[1]);
  fam_define(pass, "STEP_Y", "%d", (int)l->stride[0]);
  fam_define(pass, "GAP_Y", "%d", (int)l->dilation[0]);
  fam_define(pass, "GAP_X", "%d", (int)l->dilation[1]);
  fam_define(pass, "SINGLE_END", "%d", (int)(l->out[1] % 2));
  fam_groups(pass,
             w->batches * parts(l->out[0], cut->rows) * parts(l->out[1], strip),
             plan->lanes);
}

/* As the plan wants it, where that is among what it can be; else by the cost model. */
static void cut_choose(const fam_plan *plan, fam_pass *pass,
                       const fam_work *w) {
  pass->cut = model_cut(plan, w);
  pass->cut_count = 0;
  offer_all(pass, plan, w);
  for (uint32_t i = 0; plan->cut.kernel && i < pass->cut_count; i++)
    if (is_cut(&pass->cuts[i], &plan->cut)) pass->cut = pass->cuts[i];
}

fam_pass *fam_cut_begin(fam_plan *plan, const fam_work *w) {
  fam_pass *pass = fam_begin(plan, "gemm");
  cut_choose(plan, pass, w);
  const fam_cut *cut = &pass->cut;
  pass->kernel = cut->kernel;
  fam_define(pass, "V", "%s", kd_dtype_name(w->sums));
  if (!strcmp(cut->kernel, "gemm")) {
    fam_share(pass, "part_a", w->sums, TILE * 16);
    fam_share(pass, "part_b", w->sums, TILE * 16);
    fam_groups(pass, w->batches * parts(w->m, TILE) * parts(w->n, TILE), 64);
  } else if (!strcmp(cut->kernel, "gemm_wide")) {
    cut_wide(plan, pass, w, cut);
  } else if (!strcmp(cut->kernel, "gemm_direct")) {
    fam_define(pass, "ROWS", "%d", (int)cut->rows);
    fam_groups(pass, w->batches * parts(w->m, cut->rows) * parts(w->n, 64), 64);
  } else if (!strcmp(cut->kernel, "depth_lanes")) {
    cut_lines(plan, pass, w, cut);
  } else {
    cut_lanes(plan, pass, w, cut);
  }
  return pass;
}
