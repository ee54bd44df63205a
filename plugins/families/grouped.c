/* grouped.c - com.microsoft's GroupQueryAttention: new rows go to the cache (kernels/grouped.k),
 * then attention reads the whole cache (kernels/attention.k). The semantics stand in
 * host/src/opsets/microsoft/grouped.c. */
#include <math.h>

#include "families/attention.h"
#include "families/rows.h"

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COS,
  SIN,
  PLACES,
  BIAS,
  SINK
};
enum { OUTPUT, PRESENT_KEY, PRESENT_VALUE };

typedef struct grouped {
  int64_t batch, rows, heads, groups, size;
  int64_t room;  /* places of a group in the cache */
  int64_t limit; /* of keys that a batch may have */
  bool packed;   /* keys and values lie behind queries */
  bool rotated, first;
  bool in_place; /* the cache lies where it was (KD_ALIAS_MUST) */
  bool queried;  /* queries are to go where results will be */
} grouped;

static bool grouped_read(const fam_op *op, fam_plan *plan, grouped *g) {
  const fam_tensor *q = &op->in[QUERY], *present = &op->out[PRESENT_KEY];
  int64_t total = 0;
  /* where the total is not known yet, nor are the outputs' types */
  bool kept = op->out_count > PRESENT_VALUE;
  if (kept && fam_host_ints(op, plan, TOTAL, &total, 1) < 1) return false;
  if (!kept || !present->dtype || !op->out[PRESENT_VALUE].dtype) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "without present_key, present_value");
    return false;
  }
  g->packed = !fam_has(op, KEY);
  g->heads = fam_attr(op, "num_heads", 1);
  g->groups = fam_attr(op, "kv_num_heads", 1);
  g->batch = q->dims[0];
  g->rows = q->dims[1];
  g->size = q->dims[2] / (g->packed ? g->heads + 2 * g->groups : g->heads);
  g->room = present->dims[2];
  g->limit = fam_has(op, BIAS) ? total : g->room;
  g->rotated = fam_attr(op, "do_rotary", 0) != 0;
  g->first = g->rows == total;
  g->in_place = fam_has(op, PAST_KEY) && op->in[PAST_KEY].dims[2] == g->room;
  g->queried = g->packed || g->rotated;
  return true;
}

/* Fails where lengths that are known now (a constant's) do not fit; the device itself can't say
 * so, and makes zeros, or in a first call does not read them. */
static bool lengths_fit(const fam_op *op, fam_plan *plan, const grouped *g) {
  const int32_t *lengths = op->in[LENGTHS].data;
  int64_t least = g->first ? 0 : g->rows - 1;
  int64_t limit = g->first ? g->room : g->limit;
  for (int64_t b = 0; lengths && b < g->batch; b++) {
    if (lengths[b] >= least && lengths[b] < limit) continue;
    fam_fail(op, plan, KD_INVALID_ARGUMENT,
             "seqlens_k[%lld] is %lld, outside of %lld..%lld: it does not fit"
             " %lld new rows and a cache of %lld places",
             (long long)b, (long long)lengths[b], (long long)least,
             (long long)limit - 1, (long long)g->rows, (long long)limit);
    return false;
  }
  return true;
}

/* Where a batch's new rows begin. */
static void use_lengths(const fam_op *op, fam_plan *plan, fam_pass *pass,
                        const grouped *g) {
  fam_define(pass, "FIRST", "%d", g->first);
  fam_int(plan, pass, "ROOM", g->room);
  if (g->first) return;
  fam_int(plan, pass, "LIMIT", g->limit);
  fam_in(pass, "LENGTH", op, LENGTHS);
}

/* ---- new rows ------------------------------------------------------------------------------ */

static void families_grouped_turn(const fam_op *op, fam_plan *plan,
                                  fam_pass *pass, const grouped *g) {
  bool placed = g->rotated && fam_has(op, PLACES);
  fam_define(pass, "ROTATED", "%d", g->rotated);
  fam_define(pass, "PLACED", "%d", placed);
  if (!g->rotated) return;
  fam_define(pass, "PAIRS_APART", "%d",
             fam_attr(op, "rotary_interleaved", 0) == 0);
  fam_int(plan, pass, "TURNING", 2 * op->in[COS].dims[1]);
  fam_int(plan, pass, "TABLE", op->in[COS].dims[0]);
  fam_in(pass, "COS", op, COS);
  fam_in(pass, "SIN", op, SIN);
  if (placed) fam_in(pass, "AT", op, PLACES);
}

static void use_past(const fam_op *op, fam_plan *plan, fam_pass *pass,
                     const grouped *g) {
  bool cached = !g->in_place && fam_has(op, PAST_KEY);
  fam_define(pass, "COPIED", "%d", !g->in_place);
  fam_define(pass, "CACHED", "%d", cached);
  if (!cached) return;
  fam_int(plan, pass, "BEFORE", op->in[PAST_KEY].dims[2]);
  fam_in(pass, "PASTK", op, PAST_KEY);
  fam_in(pass, "PASTV", op, PAST_VALUE);
}

static void put_rows(const fam_op *op, fam_plan *plan, const grouped *g) {
  fam_pass *pass = fam_begin(plan, "grouped");
  int64_t queries = g->queried ? op->out[OUTPUT].count : 0;
  int64_t numbers = g->in_place ? g->batch * g->rows * g->groups * g->size
                                : op->out[PRESENT_KEY].count;
  fam_define(pass, "V", "%s", kd_dtype_name(fam_compute(op->in[0].dtype)));
  fam_define(pass, "PACKED", "%d", g->packed);
  fam_define(pass, "QUERIED", "%d", g->queried);
  fam_items(plan, pass, queries + 2 * numbers);
  fam_int(plan, pass, "QUERIES", queries);
  fam_int(plan, pass, "NUMBERS", numbers);
  fam_int(plan, pass, "ROWS", g->rows);
  fam_int(plan, pass, "HEADS", g->heads);
  fam_int(plan, pass, "GROUPS", g->groups);
  fam_int(plan, pass, "SIZE", g->size);
  use_lengths(op, plan, pass, g);
  use_past(op, plan, pass, g);
  families_grouped_turn(op, plan, pass, g);
  fam_in(pass, "QUERY", op, QUERY);
  if (!g->packed) {
    fam_in(pass, "KEY", op, KEY);
    fam_in(pass, "VALUE", op, VALUE);
  }
  if (g->queried) fam_out(pass, "Y", op, OUTPUT);
  fam_out(pass, "KEYS", op, PRESENT_KEY);
  fam_out(pass, "VALUES", op, PRESENT_VALUE);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void use_scores(const fam_op *op, fam_plan *plan, fam_pass *pass,
                       const grouped *g) {
  int64_t last = fam_attr(op, "local_window_size", -1);
  double cap = fam_attr_real(op, "softcap", 0);
  bool smooth = fam_attr(op, "smooth_softmax", -1) > 0;
  fam_define(pass, "WINDOWED", "%d", last > 0);
  if (last > 0) fam_int(plan, pass, "WINDOW", last < g->room ? last : g->room);
  fam_define(pass, "CAPPED", "%d", cap > 0);
  if (cap > 0) fam_real(pass, "CAP", cap);
  fam_define(pass, "SINK_IS", "%d", fam_has(op, SINK) ? 2 : smooth);
  if (fam_has(op, SINK)) fam_in(pass, "SINK", op, SINK);
  fam_attention_mask(op, plan, pass, BIAS, 4,
                     (const int64_t[]){g->batch, g->heads});
}

/* A group has a row's queries to itself, so that results may take their place. */
static void attend(const fam_op *op, fam_plan *plan, const grouped *g) {
  double scale = fam_attr_real(op, "scale", 0);
  attention a = {.compute = KD_F32,
                 .heads = g->heads,
                 .share = g->heads / g->groups,
                 .all = g->batch * g->heads,
                 .m = g->rows,
                 .d = g->size,
                 .e = g->size,
                 .scale = scale != 0 ? scale : 1 / sqrt((double)g->size),
                 .causal = true,
                 .heads_last = true,
                 .nan_as_zero = true,
                 .whole = g->queried};
  if (!a.all || !a.m || !a.d) return;
  fam_pass *pass = fam_attention(op, plan, &a);
  fam_define(pass, "GROUPED", "1");
  use_lengths(op, plan, pass, g);
  use_scores(op, plan, pass, g);
  if (g->queried) {
    fam_define(pass, "Q(i)", "Y(i)");
    fam_define(pass, "Q_", "Y_");
  } else {
    fam_in(pass, "Q", op, QUERY);
  }
  fam_bind(pass, "KEY", FAM_OUTPUT, PRESENT_KEY, op->in[QUERY].dtype);
  fam_bind(pass, "VAL", FAM_OUTPUT, PRESENT_VALUE, op->in[QUERY].dtype);
  fam_out(pass, "Y", op, OUTPUT);
}

void fam_plan_group_query_attention(const fam_op *op, fam_plan *plan) {
  grouped g = {0};
  if (!grouped_read(op, plan, &g) || !lengths_fit(op, plan, &g)) return;
  put_rows(op, plan, &g);
  attend(op, plan, &g);
}
