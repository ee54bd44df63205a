/* exchange.c - ops by which the members of a group exchange values: their types, and their
 * rendezvous. keel/op.h documents them. */
#include <kd/collective.h>

#include "ops/runtime.h"
#include "opsets/shapes.h"
#include "opsets/tables.h"
#include "values/member.h"

static const struct {
  const char *name;
  keel_exchange_kind kind;
} kinds[] = {
    {"AllReduce", KEEL_ALL_REDUCE},
    {"AllGather", KEEL_ALL_GATHER},
    {"ReduceScatter", KEEL_REDUCE_SCATTER},
    {"AllToAll", KEEL_ALL_TO_ALL},
    {"Broadcast", KEEL_BROADCAST},
    {"Permute", KEEL_PERMUTE},
    {"Send", KEEL_SEND},
    {"Receive", KEEL_RECEIVE},
};

static keel_exchange_kind exchange_kind_of(const keel_opdef *op) {
  for (size_t i = 0; i < KEEL_COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i].name, op->schema->name)) return kinds[i].kind;
  return KEEL_PERMUTE;
}

/* ---- types --------------------------------------------------------------------- */

keel_status keel_shape_rank(keel_infer *infer) {
  return keel_infer_out(infer, 0, 0, NULL);
}

static keel_status refuse_rows(const keel_infer *infer, int64_t size) {
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "the first dimension of X can't be parted among %lld"
                         " members evenly",
                         (long long)size);
}

keel_status keel_shape_exchange(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[1]);
  keel_exchange_kind kind = exchange_kind_of(infer->op);
  int64_t size = keel_attr_int(infer->op, "size", 0);
  bool parts = kind == KEEL_REDUCE_SCATTER || kind == KEEL_ALL_TO_ALL;
  if (size < 0 || size > KEEL_MEMBERS_MOST ||
      (!size && (parts || kind == KEEL_ALL_GATHER)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "size is %lld; a group has 1 to %d members",
                           (long long)size, KEEL_MEMBERS_MOST);
  if (parts && (!dims.rank || dims.dims[0] % size))
    return refuse_rows(infer, size);
  if (kind == KEEL_REDUCE_SCATTER) dims.dims[0] /= size;
  if (kind == KEEL_ALL_GATHER) {
    if (!dims.rank)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "X has no dimension to be joined by");
    KEEL_TRY(keel_infer_grow(infer, &dims.dims[0], size));
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- calls --------------------------------------------------------------------- */

static keel_status member_in(const keel_host_call *call,
                             keel_member **out_member) {
  keel_resource *resource = NULL;
  keel_status status =
      keel_resource_of(call->inputs[0], KEEL_MEMBER, &resource);
  if (status != KD_OK) {
    char text[512];
    snprintf(text, sizeof text, "%s", keel_message());
    return keel_call_fail(call, status, "%s", text);
  }
  *out_member = keel_member_of(resource);
  return KD_OK;
}

static keel_status run_rank(keel_host_call *call) {
  keel_member *member = NULL;
  KEEL_TRY(member_in(call, &member));
  int64_t rank = member->rank;
  return keel_tensor_create(call->context, KD_I64, 0, NULL, &rank,
                            &call->outputs[0]);
}

static uint32_t reduction_of(const keel_opdef *op) {
  static const char *const names[] = {"sum", "product", "min", "max"};
  const char *said = keel_attr_string(op, "reduction", "sum");
  for (uint32_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (!strcmp(names[i], said)) return i;
  return KD_REDUCE_SUM;
}

/* Each member once, in parts of `size`. */
static keel_status check_ranks(const keel_host_call *call,
                               const keel_exchange *what, uint32_t members) {
  bool seen[KEEL_MEMBERS_MOST] = {false};
  if (!what->ranks)
    return !what->size || what->size == members
               ? KD_OK
               : keel_call_fail(call, KD_INVALID_ARGUMENT,
                                "is for a group of %u members, and this one"
                                " has %u",
                                (unsigned)what->size, (unsigned)members);
  if (what->rank_count != members || !what->size || members % what->size)
    return keel_call_fail(
        call, KD_INVALID_ARGUMENT,
        "names %lld ranks in subgroups of %u, and the group has %u members",
        (long long)what->rank_count, (unsigned)what->size, (unsigned)members);
  for (int64_t i = 0; i < what->rank_count; i++) {
    int64_t rank = what->ranks[i];
    if (rank < 0 || rank >= members || seen[rank])
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "names rank %lld, which is not one of 0 to %u, or"
                            " is named twice",
                            (long long)rank, (unsigned)members - 1);
    seen[rank] = true;
  }
  return KD_OK;
}

/* Pairs of from and to, each to at most once. */
static keel_status check_pairs(const keel_host_call *call,
                               const keel_exchange *what, uint32_t members) {
  bool seen[KEEL_MEMBERS_MOST] = {false};
  if (what->rank_count % 2)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "has %lld ranks, which do not form pairs",
                          (long long)what->rank_count);
  for (int64_t i = 0; i < what->rank_count; i++) {
    int64_t rank = what->ranks[i];
    bool to = i % 2;
    if (rank < 0 || rank >= members || (to && seen[rank]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "sends %s rank %lld, which is not one of 0 to %u%s",
                            to ? "to" : "from", (long long)rank,
                            (unsigned)members - 1,
                            to ? ", or receives twice" : "");
    if (to) seen[rank] = true;
  }
  return KD_OK;
}

static keel_status exchange_check_value(const keel_host_call *call,
                                        keel_tensor *value) {
  return value && (keel_tensor_state(value) == KEEL_FAILED ||
                   value->kind == KEEL_DATA)
             ? KD_OK
             : keel_call_fail(call, KD_INVALID_ARGUMENT, "X is not a tensor");
}

static keel_status run_exchange(keel_host_call *call) {
  keel_member *member = NULL;
  keel_tensor *value = call->input_count > 1 ? call->inputs[1] : NULL;
  KEEL_TRY(member_in(call, &member));
  if (member->size > KEEL_MEMBERS_MOST)
    return keel_call_fail(call, KD_UNIMPLEMENTED,
                          "is for up to %d ranks, and there are %u",
                          KEEL_MEMBERS_MOST, (unsigned)member->size);
  KEEL_TRY(exchange_check_value(call, value));
  keel_exchange what = {
      .kind = exchange_kind_of(call->op),
      .reduction = reduction_of(call->op),
      .size = (uint32_t)keel_attr_int(call->op, "size", 0),
  };
  bool pairs = what.kind == KEEL_PERMUTE;
  what.rank_count =
      keel_attr_ints(call->op, pairs ? "pairs" : "ranks", &what.ranks);
  if (what.rank_count < 0) what.rank_count = 0;
  if (!what.rank_count) what.ranks = NULL;
  KEEL_TRY(pairs ? check_pairs(call, &what, member->size)
                 : check_ranks(call, &what, member->size));
  return member->meet(member, &what, call->op->schema->name, call->where, value,
                      &call->outputs[0]);
}

/* ---- of two members -------------------------------------------------------------- */

static keel_status check_peer(const keel_host_call *call,
                              const keel_member *member, int64_t peer) {
  if (peer >= 0 && peer < member->size && peer != member->rank) return KD_OK;
  return keel_call_fail(call, KD_INVALID_ARGUMENT,
                        peer == member->rank
                            ? "names rank %lld, which is this one"
                            : "names rank %lld, and the group has %u members",
                        (long long)peer, (unsigned)member->size);
}

/* The attributes; the type function has checked them. */
static keel_status received_type(const keel_host_call *call,
                                 const keel_type **out_type) {
  const int64_t *shape = NULL;
  int64_t rank = keel_attr_ints(call->op, "shape", &shape);
  return keel_type_of((kd_dtype)keel_attr_int(call->op, "dtype", KD_F32),
                      rank < 0 ? 0 : (uint32_t)rank, shape, out_type);
}

static keel_status run_pair(keel_host_call *call) {
  keel_member *member = NULL;
  bool sends = exchange_kind_of(call->op) == KEEL_SEND;
  keel_tensor *value = sends && call->input_count > 1 ? call->inputs[1] : NULL;
  int64_t peer = keel_attr_int(call->op, sends ? "to" : "from", -1);
  keel_exchange what = {.kind = sends ? KEEL_SEND : KEEL_RECEIVE,
                        .peer = (uint32_t)peer};
  KEEL_TRY(member_in(call, &member));
  KEEL_TRY(check_peer(call, member, peer));
  KEEL_TRY(sends ? exchange_check_value(call, value)
                 : received_type(call, &what.type));
  return member->meet(member, &what, call->op->schema->name, call->where, value,
                      &call->outputs[0]);
}

/* ---- rows ---- */

#define EXCHANGE(name, params, attrs)                              \
  {                                                                \
    "keel", name, 1, "any", params, attrs, keel_shape_exchange, 0, \
        KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST, run_exchange \
  }

static const keel_schema_row rows[] = {
    /* by which the members of a group exchange values; see keel/op.h */
    EXCHANGE("AllReduce", "member:any X:T -> Y:T",
             "reduction:s=sum|product|min|max size:i=0 ranks:I"),
    EXCHANGE("AllGather", "member:any X:T -> Y:T", "size:i! ranks:I"),
    EXCHANGE("ReduceScatter", "member:any X:T -> Y:T",
             "reduction:s=sum|product|min|max size:i! ranks:I"),
    EXCHANGE("AllToAll", "member:any X:T -> Y:T", "size:i! ranks:I"),
    EXCHANGE("Broadcast", "member:any X:T -> Y:T", "size:i=0 ranks:I"),
    EXCHANGE("Permute", "member:any X:T -> Y:T", "pairs:I!"),
    {"keel", "Send", 1, "any", "member:any X:T -> Y:T", "to:i!",
     keel_shape_exchange, 0, KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST,
     run_pair},
    {"keel", "Receive", 1, "any", "member:any -> Y:any",
     "from:i! dtype:i=1 shape:I", keel_shape_random, 0,
     KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST, run_pair},
    {"keel", "Rank", 1, "any", "member:any -> rank:i64", "", keel_shape_rank, 0,
     KEEL_OP_READS, KEEL_BY_HOST, run_rank},
};

static const keel_op_rule rules[] = {{"keel::Rank", .traits = KEEL_OP_ALONE}};

const keel_op_table keel_ops_exchange = {KEEL_TABLE_ROWS(rows),
                                         KEEL_TABLE_RULES(rules)};
