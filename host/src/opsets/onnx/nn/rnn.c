/* rnn.c - RNN, GRU, LSTM: shapes, forms of older opsets, work. */
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/work.h"

keel_status keel_shape_rnn(keel_infer *infer) {
  const keel_type *x = infer->in[0], *w = infer->in[1], *r = infer->in[2];
  const char *name = infer->op->schema->name;
  int64_t gates = !strcmp(name, "LSTM") ? 4 : !strcmp(name, "GRU") ? 3 : 1;
  if (x->rank != 3 || w->rank != 3 || r->rank != 3 ||
      w->dims[0] != r->dims[0] || w->dims[2] != x->dims[2] ||
      r->dims[2] * gates != r->dims[1] || w->dims[1] != r->dims[1])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X is [seq,batch,in], W [dir,%lld*hidden,in], R"
                           " [dir,%lld*hidden,hidden]",
                           (long long)gates, (long long)gates);
  int64_t units = keel_attr_int(infer->op, "hidden_size", r->dims[2]);
  if (units != r->dims[2])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "hidden_size is %lld, and R has %lld units",
                           (long long)units, (long long)r->dims[2]);
  const char *direction = keel_attr_string(infer->op, "direction", "forward");
  if (w->dims[0] != (strcmp(direction, "bidirectional") ? 1 : 2))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "W has %lld directions, and direction is %s",
                           (long long)w->dims[0], direction);
  int64_t hidden = r->dims[2], dirs = w->dims[0];
  bool batch_first = keel_attr_int(infer->op, "layout", 0) != 0;
  int64_t seq = x->dims[batch_first], batch = x->dims[!batch_first];
  int64_t y[4] = {seq, dirs, batch, hidden}, h[3] = {dirs, batch, hidden};
  int64_t yb[4] = {batch, seq, dirs, hidden}, hb[3] = {batch, dirs, hidden};
  infer->dtypes[1] = infer->dtypes[2] = infer->dtypes[0];
  KEEL_TRY(keel_infer_out(infer, 0, 4, batch_first ? yb : y));
  KEEL_TRY(keel_infer_out(infer, 1, 3, batch_first ? hb : h));
  return keel_infer_out(infer, 2, 3, batch_first ? hb : h);
}

/* It said whether the first output is wanted, as being named does. */
static keel_status old_rnn(keel_draft *draft) {
  keel_upgrade_drop(draft, "output_sequence");
  return KD_OK;
}

static uint64_t recurrent_steps(const keel_work *work) {
  return keel_times(
      keel_times(keel_work_dim(work->in[0], 0), keel_work_dim(work->in[0], 1)),
      keel_plus(keel_work_elements(work->in[1]),
                keel_work_elements(work->in[2])));
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"RNN", 1, 7, old_rnn},
    {"GRU", 1, 7, old_rnn},
    {"LSTM", 1, 7, old_rnn},
};

static const keel_op_rule rules[] = {
    {"LSTM", .steps = recurrent_steps},
    {"GRU", .steps = recurrent_steps},
    {"RNN", .steps = recurrent_steps},
};

const keel_op_table keel_ops_rnn = {KEEL_TABLE_RULES(rules),
                                    KEEL_TABLE_UPGRADES(upgrades)};
