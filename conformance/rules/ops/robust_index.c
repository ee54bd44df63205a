/* robust_index.c - indices that are out of range: nothing outside the tensors is written, and
 * nothing outside them is read into a result. */
#include <math.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/ops/robust.h"
#include "rules/rules.h"

/* Tensors lie in one buffer, so far apart, and between them are bytes that the rule knows. */
#define APART 4096u
#define POOL  (256u << 10)

/* What may come out: data, a zero, or no number; of a reduction anything. */
static bool is_data(const kc_op_case *one, real x) {
  for (uint32_t i = 0; i < one->op.attr_count; i++)
    if (!strcmp(one->op.attrs[i].name, "reduction")) return true;
  if (x == 0 || isnan(x)) return true;
  for (uint32_t i = 0; i < one->op.in_count; i++)
    for (int64_t k = 0; one->op.in[i] && dtype_is_float(one->op.in[i]->dtype) &&
                        k < one->op.in[i]->count;
         k++)
      if (one->op.in[i]->x[k] == x) return true;
  return false;
}

static bool is_piece(const kc_run *run, uint64_t at, const kc_buffer *pool) {
  for (uint32_t i = 0; i < KC_PORTS; i++) {
    const kc_buffer *pieces[] = {run->in_buffers[i], run->out_buffers[i]};
    for (int k = 0; k < 2; k++)
      if (pieces[k] && pieces[k]->piece &&
          at >= pieces[k]->offset - pool->offset &&
          at < pieces[k]->offset - pool->offset + pieces[k]->size)
        return true;
  }
  return false;
}

/* That all between the tensors is as it was. */
static void check_between(const kc_run *run, kc_buffer *pool, uint8_t between,
                          int64_t index) {
  unsigned char *now = kc_take(POOL);
  kc_read(pool, 0, now, POOL);
  for (uint64_t at = 0; at < POOL; at++)
    if (now[at] != between && !is_piece(run, at, pool)) {
      kc_check(false, "with the index %lld it wrote outside its tensors",
               (long long)index);
      break;
    }
  free(now);
}

/* One launch, with that byte between the tensors; its output, or NULL where it failed. */
static value *run_between(kc_op_case *one, kc_node *node,
                          const kd_kernel_def *def, uint8_t between,
                          int64_t index) {
  kc_buffer *pool = kc_buffer_make(POOL);
  unsigned char *bytes = kc_take(POOL);
  kc_layout layout = kc_plain;
  kc_run *run = NULL;
  value *got = NULL;
  memset(bytes, between, POOL);
  kc_write(pool, 0, bytes, POOL);
  free(bytes);
  layout.pool = pool;
  layout.at = 4 * APART;
  layout.gap = APART;
  layout.fill = between;
  if (kc_run_make(node, def, &one->op, &layout, &run) == KD_OK) {
    kd_status status = kc_run_now(run);
    kc_check(status >= 0 && status <= KD_BUSY, "%s returned %d", def->op,
             status);
    check_between(run, pool, between, index);
    if (status == KD_OK) got = kc_run_output(run, 0);
    kc_run_free(run);
  }
  kc_buffer_free(pool);
  return got;
}

/* An index that is just outside: an error, or what comes out is data or zero. */
static void try_index(kc_op_case *one, kc_node *node, const kd_kernel_def *def,
                      int64_t index) {
  static const uint8_t between[] = {0x7f, 0x56};
  value *got[2];
  for (int i = 0; i < 2; i++)
    got[i] = run_between(one, node, def, between[i], index);
  for (int64_t k = 0; got[0] && got[1] && k < got[0]->count; k++) {
    real x = got[0]->x[k], y = got[1]->x[k];
    if (x != y && !(isnan(x) && isnan(y))) {
      kc_check(
          false,
          "with the index %lld element %lld of the result follows what lies"
          " outside the tensors, or is not written: %Lg, then %Lg",
          (long long)index, (long long)k, x, y);
      break;
    }
    if (!is_data(one, x)) {
      kc_check(false,
               "with the index %lld element %lld of the result is %Lg, which is"
               " neither in its inputs nor 0",
               (long long)index, (long long)k, x);
      break;
    }
  }
  kc_check(true, " ");
  value_free(got[0]);
  value_free(got[1]);
}

/* The dimension that the index in that place of the list goes over. */
static int64_t indexed_dim(const kc_op *op, int64_t place) {
  const value *data = op->in[0], *indices = op->in[1];
  int64_t axis = 0, skip = 0;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    if (!strcmp(op->attrs[i].name, "axis")) axis = op->attrs[i].i;
    if (!strcmp(op->attrs[i].name, "batch_dims")) skip = op->attrs[i].i;
  }
  if (strstr(op->name, "ND") && indices->rank)
    axis = skip + place % indices->dims[indices->rank - 1];
  if (axis < 0) axis += data->rank;
  return axis < (int64_t)data->rank ? data->dims[axis] : 0;
}

static void just_outside(const char *op, uint32_t c) {
  kc_op_case one;
  if (!kc_case_ints(NULL, op, c, c, &one)) return;
  value *places = one.own[1];
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  bool inside =
      def && places->count && one.own[0]->count > 1 && !(def->host_inputs & 3);
  for (int64_t k = 0; inside && k < one.own[0]->count; k++)
    one.own[0]->x[k] = k + 3; /* no two equal, none zero */
  for (int end = 0; inside && end < 2; end++) {
    int64_t place = end ? places->count - 1 : 0;
    int64_t dim = indexed_dim(&one.op, place), row = one.own[0]->count;
    real kept = places->x[place];
    const int64_t far[] = {dim,      dim + 1,  2 * dim,   dim + row,
                           -dim - 1, -dim - 2, -dim - row};
    for (size_t i = 0; dim && i < KC_COUNT_OF(far); i++) {
      places->x[place] = far[i];
      try_index(&one, node, def, far[i]);
    }
    places->x[place] = kept;
  }
  kc_node_free(node);
  kc_case_free(&one);
}

/* Far outside: no write around the tensors. */
static void far_outside(const char *op, int64_t index) {
  kc_op_case one;
  if (!kc_case_ints(NULL, op, 0, 0, &one)) return;
  one.own[1]->x[0] = index;
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  kc_run *run = NULL;
  if (def && kc_run_make(node, def, &one.op, &kc_plain, &run) == KD_OK) {
    kd_status status = kc_run_now(run); /* an error, or a clamp */
    kc_check(status >= 0 && status <= KD_BUSY, "%s returned %d", op, status);
    kc_check(kc_buffer_intact(kc_run_under(run, 0)),
             "%s wrote outside its output", op);
    for (uint32_t i = 0; i < one.op.in_count; i++)
      if (run->in_buffers[i])
        kc_check(kc_buffer_intact(run->in_buffers[i]),
                 "%s wrote around input %u", op, i);
    kc_run_free(run);
  }
  kc_node_free(node);
  kc_case_free(&one);
}

void robust_indices(void) {
  static const char *const ops[] = {"Gather",    "GatherElements",
                                    "GatherND",  "ScatterElements",
                                    "ScatterND", "OneHot"};
  static const int64_t indices[] = {1000000,   -1000000, INT64_MAX,
                                    INT64_MIN, 5,        -6};
  kc_device();
  for (size_t o = 0; o < KC_COUNT_OF(ops); o++) {
    for (size_t i = 0; i < KC_COUNT_OF(indices); i++)
      if (kc_case("op=%s,index=%lld", ops[o], (long long)indices[i])) {
        robust_need_op(ops[o]);
        far_outside(ops[o], indices[i]);
        kc_check(true, " ");
      }
    uint32_t count = o < 5 ? kc_case_count(NULL, ops[o]) : 0;
    for (uint32_t c = 0; c < count; c++)
      if (kc_case("op=%s,case=%u,index=outside", ops[o], c)) {
        robust_need_op(ops[o]);
        just_outside(ops[o], c);
        kc_check(true, " ");
      }
  }
  if (!kc.only && kc_case("afterwards")) kc_smoke();
}
