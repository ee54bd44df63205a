/* collective.c - what the devices of one program exchange, by the ops of keel/op.h. A program
 * has one replica and a partition for each device, as JAX's have. */
#include <kd/collective.h>

#include "frontends/stablehlo/reduce.h"

#define MEMBERS_MOST 1024

/* ---- the group ------------------------------------------------------------------------- */

keel_value hlo_member(hlo *h) {
  if (h->member == KEEL_ABSENT)
    h->member = keel_builder_resource(h->levels[0], "keel.member");
  return hlo_here(h, h->member, 0);
}

keel_status hlo_partition_id(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 0, 1));
  op->out[0] = keel_emit_cast(hlo_at(h), HLO(h, "keel::Rank", hlo_member(h)),
                              op->out_types[0]->dtype);
  return KD_OK;
}

keel_status hlo_replica_id(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 0, 1));
  op->out[0] = hlo_number(h, op->out_types[0]->dtype, 0);
  return KD_OK;
}

/* ---- parts of it ------------------------------------------------------------------------- */

typedef struct parts {
  int64_t ranks[MEMBERS_MOST];
  uint32_t count;
  int64_t size; /* of each */
} parts;

/* Groups are of partitions: they are of replicas without a channel, and may be of both where ids
 * are not global. */
static keel_status check_channel(const hlo *h, const hlo_op *op, bool global) {
  int64_t channel = 0;
  uint64_t ids = 1;
  KEEL_TRY(vhlo_int(&h->v, op->raw, "channel_id", &channel));
  if (global)
    KEEL_TRY(
        vhlo_enum(&h->v, op->raw, "use_global_device_ids", VHLO_BOOLEAN, &ids));
  return channel > 0 && ids
             ? KD_OK
             : hlo_refuse(h, op,
                          "it is among replicas; Keel runs one replica, of"
                          " several partitions");
}

static keel_status read_parts(const hlo *h, const hlo_op *op, bool global,
                              parts *out) {
  vhlo_dense dense;
  KEEL_TRY(check_channel(h, op, global));
  KEEL_TRY(vhlo_dense_of(&h->v, op->raw, "replica_groups", &dense));
  KEEL_TRY(vhlo_ints(&h->v, op->raw, "replica_groups", MEMBERS_MOST,
                     &out->count, out->ranks));
  if (dense.type->rank != 2 || !out->count)
    return hlo_refuse(h, op, "it names no groups of devices");
  out->size = dense.type->dims[1];
  for (uint32_t i = 0; i < out->count; i++)
    if (out->ranks[i] < 0)
      return hlo_refuse(h, op, "its groups of devices differ in size");
  return KD_OK;
}

static keel_value collective_exchange(hlo *h, const char *name,
                                      const char *reduction, const parts *of,
                                      keel_value value) {
  h->made += of->count / 8; /* each has a list of its own */
  const keel_attr attrs[] = {
      KEEL_INT("size", of->size),
      KEEL_INTS("ranks", of->count, of->ranks),
      KEEL_STRING("reduction", reduction ? reduction : "sum"),
  };
  return hlo_node(h, name, attrs, reduction ? 3 : 2,
                  (const keel_value[]){hlo_member(h), value}, 2);
}

/* An axis in front of the others, or back in its place. */
static keel_value collective_turn(hlo *h, keel_value value, uint32_t rank,
                                  int64_t axis, bool back) {
  int64_t order[KD_MAX_RANK];
  if (!axis) return value;
  for (uint32_t i = 0; i < rank; i++)
    order[i] = back ? (i == axis  ? 0
                       : i < axis ? i + 1
                                  : i)
                    : (i == 0      ? axis
                       : i <= axis ? i - 1
                                   : i);
  return hlo_transpose(h, value, order, rank);
}

keel_value hlo_gather_parts(hlo *h, keel_value value, uint32_t rank,
                            int64_t axis, int64_t size, uint32_t count,
                            const int64_t *ranks) {
  const keel_attr attrs[] = {KEEL_INT("size", size),
                             KEEL_INTS("ranks", count, ranks)};
  h->made += count / 8;
  value =
      hlo_node(h, "keel::AllGather", attrs, 2,
               (const keel_value[]){
                   hlo_member(h), collective_turn(h, value, rank, axis, false)},
               2);
  return collective_turn(h, value, rank, axis, true);
}

/* ---- the ops --------------------------------------------------------------------------------- */

/* The kind of a reduction's body. Booleans are reduced as numbers. */
static keel_status read_reduction(const hlo *h, const hlo_op *op,
                                  const char **out_name) {
  hlo_kind kind = op->raw->region_count == 1
                      ? hlo_body_kind(h, &op->raw->regions[0])
                      : HLO_OTHER;
  bool truth = op->in_types[0]->dtype == KD_BOOL;
  *out_name = kind == HLO_ADD                                     ? "sum"
              : kind == HLO_MULTIPLY                              ? "product"
              : kind == HLO_MINIMUM || (truth && kind == HLO_AND) ? "min"
              : kind == HLO_MAXIMUM || (truth && kind == HLO_OR)  ? "max"
                                                                  : NULL;
  return *out_name ? KD_OK
                   : hlo_refuse(h, op,
                                "its reduction is none of add, multiply,"
                                " minimum and maximum");
}

static keel_value collective_reduce(hlo *h, const char *name,
                                    const char *reduction, const parts *of,
                                    keel_value value, kd_dtype dtype) {
  if (dtype != KD_BOOL)
    return collective_exchange(h, name, reduction, of, value);
  value = keel_emit_cast(hlo_at(h), value, KD_I32);
  return keel_emit_cast(
      hlo_at(h), collective_exchange(h, name, reduction, of, value), KD_BOOL);
}

keel_status hlo_all_reduce(hlo *h, const hlo_op *op) {
  parts of;
  const char *reduction = NULL;
  KEEL_TRY(read_parts(h, op, true, &of));
  KEEL_TRY(hlo_arity(h, op, op->input_count, op->input_count));
  if (!op->input_count) return hlo_wrong(h, op, "it has no operand");
  KEEL_TRY(read_reduction(h, op, &reduction));
  for (uint32_t i = 0; i < op->input_count; i++)
    op->out[i] = collective_reduce(h, "keel::AllReduce", reduction, &of,
                                   op->in[i], op->in_types[i]->dtype);
  return KD_OK;
}

keel_status hlo_reduce_scatter(hlo *h, const hlo_op *op) {
  parts of;
  int64_t axis = 0;
  const char *reduction = NULL;
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  uint32_t rank = op->in_types[0]->rank;
  KEEL_TRY(read_parts(h, op, true, &of));
  KEEL_TRY(hlo_axis(h, op, "scatter_dimension", rank, &axis));
  KEEL_TRY(read_reduction(h, op, &reduction));
  keel_value value = collective_turn(h, op->in[0], rank, axis, false);
  value = collective_reduce(h, "keel::ReduceScatter", reduction, &of, value,
                            op->in_types[0]->dtype);
  op->out[0] = collective_turn(h, value, rank, axis, true);
  return KD_OK;
}

keel_status hlo_all_gather(hlo *h, const hlo_op *op) {
  parts of;
  int64_t axis = 0;
  KEEL_TRY(read_parts(h, op, true, &of));
  KEEL_TRY(hlo_arity(h, op, op->input_count, op->input_count));
  for (uint32_t i = 0; i < op->input_count; i++) {
    uint32_t rank = op->in_types[i]->rank;
    KEEL_TRY(hlo_axis(h, op, "all_gather_dim", rank, &axis));
    op->out[i] =
        hlo_gather_parts(h, op->in[i], rank, axis, of.size, of.count, of.ranks);
  }
  return KD_OK;
}

/* The split dimension becomes two, of which the first is the block's target, and afterwards its
 * source; it ends in front of the dimension that is joined. */
static keel_value to_all(hlo *h, const parts *of, keel_value value,
                         const vhlo_type *type, int64_t split, int64_t join) {
  int64_t dims[KD_MAX_RANK];
  uint32_t rank = type->rank + 1;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i < split        ? type->dims[i]
              : i == split     ? of->size
              : i == split + 1 ? type->dims[split] / of->size
                               : type->dims[i - 1];
  value =
      collective_turn(h, hlo_reshape(h, value, rank, dims), rank, split, false);
  value = collective_exchange(h, "keel::AllToAll", NULL, of, value);
  value = collective_turn(h, value, rank, join, true);
  for (uint32_t i = 0; i < type->rank; i++)
    dims[i] = type->dims[i];
  dims[split] /= of->size;
  dims[join] *= of->size; /* checked by the caller */
  return hlo_reshape(h, value, type->rank, dims);
}

keel_status hlo_all_to_all(hlo *h, const hlo_op *op) {
  parts of;
  KEEL_TRY(read_parts(h, op, false, &of));
  KEEL_TRY(hlo_arity(h, op, op->input_count, op->input_count));
  for (uint32_t i = 0; i < op->input_count; i++) {
    const vhlo_type *type = op->in_types[i];
    int64_t split = 0, join = 0, count = 0;
    KEEL_TRY(hlo_axis(h, op, "split_dimension", type->rank, &split));
    KEEL_TRY(hlo_axis(h, op, "concat_dimension", type->rank, &join));
    KEEL_TRY(vhlo_int(&h->v, op->raw, "split_count", &count));
    if (type->rank == KD_MAX_RANK)
      return hlo_refuse(h, op, "a value of rank %u", (unsigned)type->rank);
    int64_t joined = 0;
    if (count != of.size || count < 1 || type->dims[split] % count ||
        !keel_mul_i64(type->dims[join], count, &joined))
      return hlo_wrong(
          h, op, "%lld elements are split into %lld blocks for %lld devices",
          (long long)type->dims[split], (long long)count, (long long)of.size);
    op->out[i] = to_all(h, &of, op->in[i], type, split, join);
  }
  return KD_OK;
}

keel_status hlo_collective_permute(hlo *h, const hlo_op *op) {
  int64_t pairs[2 * MEMBERS_MOST];
  uint32_t count = 0;
  KEEL_TRY(check_channel(h, op, false));
  KEEL_TRY(hlo_arity(h, op, op->input_count, op->input_count));
  KEEL_TRY(vhlo_ints(&h->v, op->raw, "source_target_pairs", 2 * MEMBERS_MOST,
                     &count, pairs));
  const keel_attr attrs[] = {KEEL_INTS("pairs", count, pairs)};
  for (uint32_t i = 0; i < op->input_count; i++)
    op->out[i] = hlo_node(h, "keel::Permute", attrs, 1,
                          (const keel_value[]){hlo_member(h), op->in[i]}, 2);
  return KD_OK;
}

keel_status hlo_collective_broadcast(hlo *h, const hlo_op *op) {
  parts of;
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  KEEL_TRY(read_parts(h, op, false, &of));
  op->out[0] = collective_exchange(h, "keel::Broadcast", NULL, &of, op->in[0]);
  return KD_OK;
}
