/* attention.c - keel::Attention of f32: softmax(scale Q K' + mask) V, by blocks of keys.
 *
 * FlashAttention's loops (Dao et al., 2022) with an online softmax (attention_rows.c): the
 * scores of ROWS rows and KEYS keys are all that there is at once.
 *
 *     for each block of KEYS keys             its K and V are packed into panels
 *       for each ROWS rows of Q
 *         S = scale Q K'                      tiles.c; S stays in the second cache
 *         S = exp(S + mask - largest)         largest: of the row's scores so far
 *         Y = Y * since + S V                 since = exp(largest before - largest)
 *     Y = Y / (sums of the rows of S)
 *
 * Heads that share K and V (grouped queries) share their packed blocks; where their rows lie
 * one behind the other, they are taken as one head. Up to FEW rows read K and V where they
 * lie. A block of keys that no row sees, by the causal order, is left out.
 *
 * Threads share the groups of heads, and pieces of their rows where those are few: never the
 * keys. Scores, powers and Y are f32; a row's sum is a double. */
#include "attention.h"

#include <stdatomic.h>

#include "kernels.h"
#include "products/tiles.h"

#define ROWS 96  /* of scores at once; whole tiles on each instruction set */
#define KEYS 256 /* of a block: its scores stay in the second cache */
#define FEW  12  /* rows for which nothing is packed */

/* What one thread has for a group. */
typedef struct room {
  float *scores, *keys, *values;
  attention_row *rows;
} room;

/* ---- where things lie ------------------------------------------------------------ */

/* Steps of the last dimensions of `rank`, which a tensor's are broadcast to. */
static attention_matrices matrices_of(const kd_tensor *tensor, uint32_t rank) {
  int64_t steps[KD_MAX_RANK] = {0}, step = 1;
  attention_matrices all = {.data = tensor->data, .lead = rank - 3};
  uint32_t lead = rank - tensor->rank;
  for (uint32_t i = tensor->rank; i-- > 0; step *= tensor->dims[i])
    if (tensor->dims[i] != 1)
      steps[lead + i] = tensor->strides ? tensor->strides[i] : step;
  memcpy(all.steps, steps, all.lead * sizeof *steps);
  all.head = steps[rank - 3];
  all.down = steps[rank - 2];
  all.across = steps[rank - 1];
  return all;
}

/* The matrix of one head. */
static const float *matrix_at(const attention_call *all,
                              const attention_matrices *of, int64_t outer,
                              int64_t head) {
  int64_t at = head * of->head;
  for (uint32_t i = of->lead; i-- > 0; outer /= all->dims[i])
    at += outer % all->dims[i] * of->steps[i];
  return of->data ? of->data + at : NULL;
}

/* Whether rows lie one behind the other, each packed. */
static bool is_readable(const kd_tensor *tensor) {
  const attention_matrices of = matrices_of(tensor, tensor->rank);
  int64_t columns = tensor->dims[tensor->rank - 1];
  return (of.across == 1 || columns <= 1) &&
         (of.down >= columns || tensor->dims[tensor->rank - 2] <= 1);
}

/* ---- rows ------------------------------------------------------------------------- */

/* Rows of a group that are computed at once: of one head, or of all of them where each
 * lies behind the one before. */
typedef struct rows {
  int64_t outer, head;  /* the first one */
  int64_t first, count; /* rows from the first of that head on */
  const float *q;
  float *y;
  int64_t q_step, y_step;
} rows;

/* A block of keys. */
typedef struct block {
  int64_t from, count;
  const float *k, *v;         /* where they lie */
  const float *keys, *values; /* packed, or NULL */
} block;

/* How many keys of a block row `row` of its head sees. */
static int64_t seen_by(const attention_call *all, const block *b, int64_t row) {
  if (!all->causal) return b->count;
  int64_t seen = row + all->n - all->m + 1 - b->from;
  return seen < 0 ? 0 : seen < b->count ? seen : b->count;
}

/* Whether some row sees a key of a block: the last one of a head sees most. */
static bool any_sees(const attention_call *all, const rows *some,
                     const block *b) {
  int64_t last = some->first + some->count - 1;
  bool one_head = some->first / all->m == last / all->m;
  return seen_by(all, b, one_head ? last % all->m : all->m - 1) > 0;
}

/* How many keys of a block lie before what row `row` of its head sees. */
static int64_t hidden_by(const attention_call *all, const block *b,
                         int64_t row) {
  if (!all->window) return 0;
  int64_t hidden = row + all->n - all->m + 1 - all->window - b->from;
  return hidden < 0 ? 0 : hidden < b->count ? hidden : b->count;
}

static void cap(float *scores, int64_t n, float most) {
  for (int64_t i = 0; i < n; i++)
    scores[i] = most * tanhf(scores[i] / most);
}

/* The powers of scores; those of keys that a row does not see are 0. */
static void soften(const attention_call *all, const rows *some, const block *b,
                   float *scores, attention_row *states) {
  attention_scores list[ROWS];
  for (int64_t i = 0; i < some->count; i++) {
    int64_t at = some->first + i, row = at % all->m;
    const float *mask =
        matrix_at(all, &all->mask, some->outer, some->head + at / all->m);
    if (mask) mask += row * all->mask.down + b->from * all->mask.across;
    list[i].scores = &scores[i * b->count];
    list[i].count = b->count;
    list[i].seen = seen_by(all, b, row);
    if (all->softcap > 0) cap(list[i].scores, list[i].seen, all->softcap);
    for (int64_t k = hidden_by(all, b, row); k-- > 0;)
      list[i].scores[k] = -INFINITY;
    list[i].mask = mask;
    list[i].step = all->mask.across;
  }
  CPU_LOOPS(cpu_attention_rows)->soften(list, some->count, states);
}

/* What a block of keys adds to some rows. */
static void add_block(const attention_call *all, const rows *some,
                      const block *b, float *scores, attention_row *states) {
  bool first = b->from == 0;
  if (!first && !any_sees(all, some, b)) return;
  cpu_gemm gemm = {.dtype = KD_F32,
                   .trans_b = !b->keys,
                   .vector = some->count == 1,
                   .m = some->count,
                   .n = b->count,
                   .k = all->d,
                   .alpha = (double)all->scale,
                   .a = some->q,
                   .b = b->k,
                   .c = scores,
                   .lda = some->q_step,
                   .ldb = all->k.down,
                   .ldc = b->count,
                   .panels = b->keys};
  cpu_gemm_here(&gemm);
  soften(all, some, b, scores, states);
  for (int64_t i = 0; i < some->count && !first; i++)
    if (states[i].since != 1)
      CPU_LOOPS(cpu_attention_rows)
          ->scale(some->y + i * some->y_step, all->e, states[i].since);
  gemm = (cpu_gemm){.dtype = KD_F32,
                    .vector = some->count == 1,
                    .m = some->count,
                    .n = all->e,
                    .k = b->count,
                    .alpha = 1,
                    .beta = first ? 0 : 1,
                    .a = scores,
                    .b = b->v,
                    .c = some->y,
                    .lda = b->count,
                    .ldb = all->v.down,
                    .ldc = some->y_step,
                    .panels = b->values};
  cpu_gemm_here(&gemm);
}

/* What a row's sum has more; infinity where the sink is far above all scores. */
static double sink_of(const attention_call *all, const rows *some, int64_t row,
                      const attention_row *state) {
  int64_t head = some->head + (some->first + row) / all->m;
  return all->sinks ? exp((double)all->sinks[head] - (double)state->most) : 0;
}

/* Divides by the sums of the powers. */
static void attention_finish(const attention_call *all, const rows *some,
                             const attention_row *states) {
  for (int64_t i = 0; i < some->count; i++) {
    float *y = some->y + i * some->y_step;
    double sum = states[i].sum;
    bool none = all->nan_as_zero && !(sum > 0);
    sum += sink_of(all, some, i, &states[i]);
    if (none)
      memset(y, 0, (size_t)all->e * sizeof *y);
    else
      CPU_LOOPS(cpu_attention_rows)->scale(y, all->e, (float)(1 / sum));
  }
}

/* ---- groups ------------------------------------------------------------------------ */

/* Heads of a group whose rows are taken as one head's: 1, or all. */
static int64_t heads_at_once(const attention_call *all) {
  int64_t heads = all->heads / all->groups;
  bool behind = all->m == 1 || (all->q.head == all->m * all->q.down &&
                                all->y.head == all->m * all->y.down);
  return behind && all->m < ROWS ? heads : 1;
}

static rows rows_at(const attention_call *all, int64_t outer, int64_t head,
                    int64_t first, int64_t count) {
  rows some = {.outer = outer, .head = head, .first = first, .count = count};
  some.q_step = all->m == 1 ? all->q.head : all->q.down;
  some.y_step = all->m == 1 ? all->y.head : all->y.down;
  some.q = matrix_at(all, &all->q, outer, head) + first * some.q_step;
  some.y = (float *)(uintptr_t)matrix_at(all, &all->y, outer, head) +
           first * some.y_step;
  return some;
}

static void pack_block(const attention_call *all, block *b, const room *in) {
  cpu_gemm gemm = {.dtype = KD_F32,
                   .trans_b = true,
                   .n = b->count,
                   .k = all->d,
                   .b = b->k,
                   .ldb = all->k.down};
  cpu_tiles_get()->pack(&gemm, in->keys);
  gemm.trans_b = false;
  gemm.n = all->e;
  gemm.k = b->count;
  gemm.b = b->v;
  gemm.ldb = all->v.down;
  cpu_tiles_get()->pack(&gemm, in->values);
  b->keys = in->keys;
  b->values = in->values;
}

/* Rows [begin, end) of heads that are taken as one, by all keys. */
typedef struct part {
  int64_t outer, group, begin, end;
} part;

static void attention_run_part(const attention_call *all, const part *p,
                               const room *in) {
  int64_t heads = all->heads / all->groups, once = heads_at_once(all);
  int64_t each = p->end - p->begin, first_head = p->group * heads;
  for (int64_t i = 0; i < heads / once * each; i++)
    in->rows[i] = (attention_row){.most = -INFINITY};
  for (int64_t from = 0; from < all->n || !from; from += KEYS) {
    block b = {.from = from,
               .count = all->n - from < KEYS ? all->n - from : KEYS};
    b.k = matrix_at(all, &all->k, p->outer, p->group) + from * all->k.down;
    b.v = matrix_at(all, &all->v, p->outer, p->group) + from * all->v.down;
    if (heads / once * each > FEW && b.count) pack_block(all, &b, in);
    for (int64_t h = 0; h < heads / once; h++)
      for (int64_t r = p->begin; r < p->end; r += ROWS) {
        const rows some = rows_at(all, p->outer, first_head + h * once, r,
                                  p->end - r < ROWS ? p->end - r : ROWS);
        add_block(all, &some, &b, in->scores,
                  in->rows + h * each + r - p->begin);
      }
  }
  for (int64_t h = 0; h < heads / once; h++) {
    const rows some =
        rows_at(all, p->outer, first_head + h * once, p->begin, each);
    attention_finish(all, &some, in->rows + h * each);
  }
}

/* ---- the whole ---------------------------------------------------------------------- */

static int64_t whole_panels(int64_t columns) {
  int64_t wide = cpu_tiles_get()->columns;
  return (columns + wide - 1) / wide * wide;
}

typedef struct work {
  const attention_call *all;
  _Atomic bool failed;
} work;

static void attention_run_parts(void *context, int64_t begin, int64_t end) {
  work *work = context;
  const attention_call *all = work->all;
  int64_t once = heads_at_once(all), total = once * all->m;
  int64_t each = (total + all->pieces - 1) / all->pieces;
  int64_t states = all->heads / all->groups / once * each;
  size_t scores = ROWS * KEYS, keys = KEYS * (size_t)all->d,
         values = KEYS * (size_t)whole_panels(all->e);
  attention_row *rows = malloc((size_t)states * sizeof *rows +
                               (scores + keys + values) * sizeof(float));
  if (!rows) {
    work->failed = true;
    return;
  }
  float *floats = (float *)(rows + states);
  const room in = {floats, floats + scores, floats + scores + keys, rows};
  for (int64_t i = begin; i < end; i++) {
    int64_t piece = i % all->pieces, group = i / all->pieces;
    part p = {group / all->groups, group % all->groups, piece * each,
              (piece + 1) * each};
    p.end = p.end < total ? p.end : total;
    if (p.begin < p.end) attention_run_part(all, &p, &in);
  }
  free(rows);
}

/* A few parts a thread, none of less than a block of rows. */
static int64_t pieces_of(const attention_call *all) {
  int64_t width = cpu_host->worker_count(cpu_host);
  int64_t wanted = width > 1 ? 2 * width : 1;
  int64_t groups = all->outer * all->groups;
  int64_t pieces = (wanted + groups - 1) / groups;
  int64_t most = (heads_at_once(all) * all->m + ROWS - 1) / ROWS;
  return pieces < most ? pieces : most;
}

static attention_call read_launch(const kd_launch *launch,
                                  const kd_tensor *in) {
  const kd_tensor *q = &in[0];
  uint32_t rank = q->rank;
  attention_call all = {.q = matrices_of(q, rank),
                        .k = matrices_of(&in[1], rank),
                        .v = matrices_of(&in[2], rank),
                        .y = matrices_of(&launch->outputs[0], rank),
                        .dims = q->dims,
                        .outer = product(q->dims, 0, rank - 3),
                        .heads = q->dims[rank - 3],
                        .groups = in[1].dims[rank - 3],
                        .m = q->dims[rank - 2],
                        .n = in[1].dims[rank - 2],
                        .d = q->dims[rank - 1],
                        .e = in[2].dims[rank - 1],
                        .scale = attr_float(launch, "scale", 1),
                        .causal = attr_int(launch, "causal", 0) != 0,
                        .nan_as_zero = attr_int(launch, "nan_as_zero", 0) != 0};
  if (attr_int(launch, "heads_last", 0)) {
    int64_t head = all.y.down;
    all.y.down = all.y.head;
    all.y.head = head;
  }
  if (kd_has_input(launch, 3)) all.mask = matrices_of(&in[3], rank);
  return all;
}

kd_status cpu_attend(attention_call *all) {
  work work = {.all = all};
  all->pieces = pieces_of(all);
  int64_t items = all->outer * all->groups * all->pieces;
  int64_t shared = all->heads / all->groups; /* by heads of Q */
  double each = (double)all->m * (double)all->n * (double)(all->d + all->e) *
                (double)shared / (double)all->pieces;
  int64_t grain = each < 1e5 ? (int64_t)(1e5 / (each + 1)) + 1 : 1;
  cpu_host->parallel_for(cpu_host, items, grain, attention_run_parts, &work);
  return work.failed ? FAIL(KD_OUT_OF_MEMORY, "no memory for a block of scores")
                     : KD_OK;
}

/* Operands that lie otherwise than products read them are packed first. */
CPU_KERNEL(cpu_run_attention) {
  kd_tensor in[4] = {{0}};
  void *packed[3] = {NULL};
  kd_status status = KD_OK;
  if (!kd_elements(&launch->outputs[0])) return KD_OK;
  for (uint32_t i = 0; i < 4; i++)
    if (kd_has_input(launch, i)) in[i] = launch->inputs[i];
  for (int i = 0; i < 3 && status == KD_OK; i++) {
    if (is_readable(&in[i])) continue;
    status = cpu_pack_input(launch, (uint32_t)i, &in[i], &packed[i]);
  }
  if (status == KD_OK) {
    attention_call all = read_launch(launch, in);
    status = cpu_attend(&all);
  }
  for (int i = 0; i < 3; i++)
    cpu_host->release(cpu_host, packed[i]);
  return status;
}
