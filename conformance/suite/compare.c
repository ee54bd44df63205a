/* compare.c - what a run computed, against the reference. */
#include <math.h>

#include "suite/run.h"

bool kc_reference(const kc_op *op, const kc_node *node, value **out) {
  const ref_op *ref = ref_find(op->domain, op->name);
  if (!ref) return false;
  for (uint32_t j = 0; j < op->out_count; j++)
    out[j] = !ref->dynamic && node->out[j]
                 ? value_make(node->out[j]->dtype, node->out[j]->rank,
                              node->out[j]->dims)
                 : NULL;
  ref_call call = {.read = &keel_node_table,
                   .node = &node->node,
                   .in = op->in,
                   .in_count = op->in_count,
                   .out = out,
                   .out_count = op->out_count,
                   .variant = ref->variant};
  if (ref->run(&call)) return true;
  kc_values_free(out, op->out_count);
  return false;
}

bool kc_reference_flushed(const kc_op *op, const kc_node *node, value **out) {
  kc_op flushed = *op;
  value *own[KC_PORTS] = {0};
  for (uint32_t i = 0; i < op->in_count; i++) {
    if (!op->in[i] || !dtype_is_float(op->in[i]->dtype)) continue;
    own[i] = value_copy(op->in[i]);
    for (int64_t k = 0; k < own[i]->count; k++)
      if (fabsl(own[i]->x[k]) < dtype_least(own[i]->dtype)) own[i]->x[k] = 0;
    flushed.in[i] = own[i];
  }
  bool done = kc_reference(&flushed, node, out);
  kc_values_free(own, KC_PORTS);
  return done;
}

void kc_values_free(value **values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    value_free(values[i]);
    values[i] = NULL;
  }
}

numerics kc_numerics(const kd_kernel_def *def, kd_dtype dtype) {
  numerics n = {.factor = 1};
  n.unit = dtype_unit(dtype == KD_F64 ? KD_F64 : KD_F32);
  if (dtype == KD_F16 && (def->flags & KD_KERNEL_ACC_F16))
    n.unit = dtype_unit(KD_F16);
  if (dtype == KD_F32 && (def->flags & KD_KERNEL_TF32)) n.unit = 0x1p-11L;
  if (def->flags & KD_KERNEL_FAST_CONV) n.factor = 4;
  if (def->flags & KD_KERNEL_RELAXED) n.factor = 8192;
  n.flushed = (def->flags & KD_KERNEL_FLUSH) != 0;
  return n;
}

static void place_text(const value *want, int64_t index, char *text,
                       size_t size) {
  size_t used = 0;
  int64_t at[KD_MAX_RANK];
  text[0] = 0;
  for (uint32_t i = want->rank; i-- > 0;) {
    at[i] = want->dims[i] ? index % want->dims[i] : 0;
    index = want->dims[i] ? index / want->dims[i] : 0;
  }
  for (uint32_t i = 0; i < want->rank && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                             (long long)at[i]);
}

bool kc_near(const value *want, const value *got, const numerics *within) {
  real error = 0;
  bool same =
      want && got && want->dtype == got->dtype && want->rank == got->rank;
  for (uint32_t d = 0; same && d < want->rank; d++)
    same = want->dims[d] == got->dims[d];
  for (int64_t i = 0; same && i < want->count; i++)
    same = value_near(want, i, got->x[i], want->dtype, within, &error);
  return same;
}

bool kc_compare(const value *want, const value *got, const numerics *within,
                const char *what) {
  if (!got) return kc_check(false, "%s was not set", what);
  bool same = want->dtype == got->dtype && want->rank == got->rank;
  for (uint32_t i = 0; same && i < want->rank; i++)
    same = want->dims[i] == got->dims[i];
  if (!kc_check(same, "%s has another type or shape than the op's", what))
    return false;
  int64_t worst = -1;
  real most = -1;
  uint64_t wrong = 0;
  for (int64_t i = 0; i < want->count; i++) {
    real error = 0;
    if (value_near(want, i, got->x[i], want->dtype, within, &error)) continue;
    real other_error = 0;
    if (within->other && within->other->count == want->count &&
        value_near(within->other, i, got->x[i], want->dtype, within,
                   &other_error))
      continue;
    wrong++;
    if (error > most) {
      most = error;
      worst = i;
    }
  }
  if (worst < 0) return kc_check(true, " ");
  char place[200];
  place_text(want, worst, place, sizeof place);
  real allowed = want->ulps * within->factor;
  if (want->slack)
    allowed += want->slack[worst] * within->factor * within->unit /
               dtype_ulp(want->x[worst], want->dtype);
  return kc_check(
      false,
      "%s[%s] is %.10Lg and should be %.10Lg: off by %.4Lg %s, %.4Lg"
      " allowed; %llu of %lld elements are wrong",
      what, place, got->x[worst], want->x[worst], most,
      dtype_is_float(want->dtype) ? "ulp" : "steps", allowed,
      (unsigned long long)wrong, (long long)want->count);
}

void kc_run_check(kc_run *run, const kc_op *op, const kc_node *node,
                  const char *what) {
  value *want[KC_PORTS] = {0};
  numerics within =
      kc_numerics(run->def, op->in[0] ? op->in[0]->dtype : KD_F32);
  if (kc_reference(op, node, want))
    for (uint32_t j = 0; j < op->out_count; j++) {
      value *got = kc_run_output(run, j);
      if (want[j]) kc_compare(want[j], got, &within, what);
      value_free(got);
    }
  else
    kc_check(true, " ");
  kc_values_free(want, op->out_count);
}

const char *kc_op_text(const kc_op *op, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "%s(", op->name);
  for (uint32_t i = 0; i < op->in_count && used < size; i++) {
    const value *in = op->in[i];
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "",
                             in ? kd_dtype_name(in->dtype) : "-");
    for (uint32_t d = 0; in && d < in->rank && used < size; d++)
      used += (size_t)snprintf(text + used, size - used, "%c%lld",
                               d ? 'x' : '[', (long long)in->dims[d]);
    if (in && in->rank && used < size)
      used += (size_t)snprintf(text + used, size - used, "]");
  }
  if (used < size) snprintf(text + used, size - used, ")");
  return text;
}

bool kc_try_op(const kc_op *op, const kc_layout *layout) {
  char why[400], text[200], name[32];
  kc_node *node = kc_node_make(op, why, sizeof why);
  if (!node) return false;
  const kd_kernel_def *def = kc_def_for(node);
  value *want[KC_PORTS] = {0};
  if (!def || !kc_reference(op, node, want)) {
    kc_node_free(node);
    return false;
  }
  kc_run *run = NULL;
  kd_status status = kc_run_make(node, def, op, layout, &run);
  kc_op_text(op, text, sizeof text);
  kc_check(status == KD_OK, "create of %s failed: %s: %s", text,
           kd_status_name(status), kc_message());
  if (run) {
    status = kc_run_now(run);
    kc_check(status == KD_OK, "%s failed: %s: %s", text, kd_status_name(status),
             kc_message());
    for (uint32_t j = 0; j < op->out_count && status == KD_OK; j++) {
      if (!want[j]) continue;
      value *got = kc_run_output(run, j);
      snprintf(name, sizeof name, "output %u", j);
      numerics within = kc_numerics(
          def, op->in_count && op->in[0] ? op->in[0]->dtype : want[j]->dtype);
      kc_compare(want[j], got, &within, name);
      value_free(got);
    }
    if (status == KD_OK) kc_run_inputs_intact(run);
    kc_run_free(run);
  }
  kc_values_free(want, op->out_count);
  kc_node_free(node);
  return true;
}

value *kc_floats(uint32_t rank, const int64_t *dims, kc_random *random) {
  value *made = value_make(KD_F32, rank, dims);
  for (int64_t i = 0; i < made->count; i++)
    made->x[i] = dtype_round(
        ((real)(int64_t)(kc_next(random) >> 11) * 0x1p-52L) - 1, KD_F32);
  return made;
}
