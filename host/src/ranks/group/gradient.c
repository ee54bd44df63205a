/* gradient.c - derivatives of the exchanges, ops of domain "keel". A rank's results depend on all
 * ranks' values: the gradient is that of the sum of y's elements on all ranks, as of pmap in JAX.
 * So each rule is the reverse exchange. */
#include "opsets/onnx/training/gradient.h"
#include "opsets/tables.h"
#include "values/member.h"

static uint32_t exchanged(keel_gradient *g, const char *op,
                          const keel_attr *attrs, uint32_t attr_count,
                          uint32_t value) {
  const uint32_t inputs[] = {keel_gradient_in(g, 0), value};
  return keel_emit_op(g->all, op, attrs, attr_count, inputs, 2);
}

/* With the node's own parts of the group; a sum where it reduces. */
static uint32_t by_parts(keel_gradient *g, const char *op) {
  keel_attr attrs[2] = {KEEL_INT("size", keel_attr_int(g->node.op, "size", 0))};
  const int64_t *ranks = NULL;
  int64_t count = keel_attr_ints(g->node.op, "ranks", &ranks);
  if (count > 0)
    attrs[1] = (keel_attr)KEEL_INTS("ranks", (uint32_t)count, ranks);
  return exchanged(g, op, attrs, 1 + (count > 0), keel_gradient_got(g, 0));
}

static bool is_sum(keel_gradient *g) {
  if (!strcmp(keel_attr_string(g->node.op, "reduction", "sum"), "sum"))
    return true;
  keel_gradient_refuse(g, "has a gradient in Keel for sums only");
  return false;
}

static void gradient_all_reduce(keel_gradient *g) {
  if (is_sum(g)) keel_gradient_give(g, 1, by_parts(g, "keel::AllReduce"));
}

static void all_gather(keel_gradient *g) {
  keel_gradient_give(g, 1, by_parts(g, "keel::ReduceScatter"));
}

static void gradient_reduce_scatter(keel_gradient *g) {
  if (is_sum(g)) keel_gradient_give(g, 1, by_parts(g, "keel::AllGather"));
}

static void all_to_all(keel_gradient *g) {
  keel_gradient_give(g, 1, by_parts(g, "keel::AllToAll"));
}

/* The sum is of the first rank of each part; others' X goes nowhere. */
static void gradient_broadcast(keel_gradient *g) {
  const int64_t *ranks = NULL;
  int64_t size = keel_attr_int(g->node.op, "size", 0), roots[KEEL_MEMBERS_MOST];
  int64_t count = keel_attr_ints(g->node.op, "ranks", &ranks), parts = 0;
  for (int64_t i = 0; i < count && size > 0 && parts < KEEL_MEMBERS_MOST;
       i += size)
    roots[parts++] = ranks[i];
  if (!parts) roots[parts++] = 0;
  const uint32_t member = keel_gradient_in(g, 0);
  uint32_t rank = keel_emit_op(g->all, "keel::Rank", NULL, 0, &member, 1);
  uint32_t same = keel_emit_binary(g->all, "Equal", rank,
                                   keel_emit_ints(g->all, roots, parts));
  const keel_attr flat = KEEL_INT("keepdims", 0);
  uint32_t number = keel_emit_cast(g->all, same, KD_I32);
  uint32_t is_root = keel_emit_cast(
      g->all, keel_emit_op(g->all, "ReduceMax", &flat, 1, &number, 1), KD_BOOL);
  uint32_t sum = by_parts(g, "keel::AllReduce");
  keel_gradient_give(
      g, 1, keel_emit_where(g->all, is_root, sum, keel_gradient_zero(g, sum)));
}

/* Back to the sender. A rank that has sent to several receives from one after the other, as it may
 * receive once in each exchange: `round` takes each rank's next pair. */
static void permute(keel_gradient *g) {
  const int64_t *pairs = NULL;
  int64_t count = keel_attr_ints(g->node.op, "pairs", &pairs) / 2, left = count;
  bool *gone = keel_arena_take(g->all->function->arena, (size_t)count + 1);
  int64_t *back = keel_arena_take(g->all->function->arena,
                                  ((size_t)count * 2 + 1) * sizeof *back);
  if (!gone || !back) {
    g->all->status = KD_OUT_OF_MEMORY;
    return;
  }
  memset(gone, 0, (size_t)count + 1);
  do {
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++) {
      bool receives = gone[i];
      for (int64_t k = 0; k < used && !receives; k++)
        receives = back[2 * k + 1] == pairs[2 * i];
      if (receives) continue;
      back[2 * used] = pairs[2 * i + 1];
      back[2 * used + 1] = pairs[2 * i];
      used++;
      gone[i] = true;
    }
    left -= used;
    const keel_attr round = KEEL_INTS("pairs", (uint32_t)(2 * used), back);
    keel_gradient_give(
        g, 1,
        exchanged(g, "keel::Permute", &round, 1, keel_gradient_got(g, 0)));
  } while (left > 0 && g->all->status == KD_OK);
}

/* The gradients from X's target, and from the uses of Y itself. */
static void send(keel_gradient *g) {
  const uint32_t member = keel_gradient_in(g, 0);
  const keel_type *type =
      keel_pass_type(g->all->function, keel_gradient_in(g, 1));
  if (!type) {
    keel_gradient_refuse(g, "has a gradient in Keel for X of known shape only");
    return;
  }
  const keel_attr attrs[] = {
      KEEL_INT("from", keel_attr_int(g->node.op, "to", 0)),
      KEEL_INT("dtype", type->dtype),
      KEEL_INTS("shape", type->rank, type->dims)};
  keel_gradient_give(
      g, 1, keel_emit_op(g->all, "keel::Receive", attrs, 3, &member, 1));
  if (keel_gradient_got(g, 0) != KEEL_ABSENT)
    keel_gradient_give(g, 1, keel_gradient_got(g, 0));
}

/* Back to the sender. */
static void receive(keel_gradient *g) {
  const keel_attr to = KEEL_INT("to", keel_attr_int(g->node.op, "from", 0));
  exchanged(g, "keel::Send", &to, 1, keel_gradient_got(g, 0));
}

static const keel_op_rule rules[] = {
    {"keel::AllReduce", .gradient = gradient_all_reduce},
    {"keel::AllGather", .gradient = all_gather},
    {"keel::ReduceScatter", .gradient = gradient_reduce_scatter},
    {"keel::AllToAll", .gradient = all_to_all},
    {"keel::Broadcast", .gradient = gradient_broadcast},
    {"keel::Permute", .gradient = permute},
    {"keel::Send", .gradient = send},
    {"keel::Receive", .gradient = receive},
};

const keel_op_table keel_ops_gradient_exchange = {KEEL_TABLE_RULES(rules)};
