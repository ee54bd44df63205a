/* maps.c - ai.onnx.ml: maps become tensors, and the other way.
 *
 * A map is a sequence of two lists that are as long: its keys, and their values. */
#include "opsets/ml/ml.h"
#include "opsets/tables.h"

/* An item of a sequence. */
static uint32_t item(keel_emit *all, uint32_t sequence, int64_t index) {
  return keel_emit_binary(all, "SequenceAt", sequence,
                          keel_emit_constant(all, KD_I64, 0, NULL, &index));
}

/* The values of keys, in the order of a list of keys, as the only row of a table; 0, or an empty
 * string, where the map has none of a key. */
static void give_values(keel_emit *all, uint32_t list, uint32_t keys,
                        uint32_t values) {
  /* -1, for an element that is not a key, is the last one */
  keel_emit_text(
      all, "%0 = Unsqueeze(Gather(Pad(%v, {0, 1}), keel::Find(%v, %v)), {0})",
      values, list, keys);
}

static void expand_dict_vectorizer(keel_emit *all) {
  keel_ml_ints ints = keel_ml_ints_of(all, "int64_vocabulary");
  int64_t count = 0;
  const char *const *strings =
      keel_ml_strings_of(all, "string_vocabulary", &count);
  uint32_t x = keel_emit_in(all, 0);
  if (!ints.count == !count)
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "it needs one of int64_vocabulary and"
                   " string_vocabulary");
  if (all->status != KD_OK) return;
  uint32_t list =
      strings ? keel_emit_strings(all, strings, count)
              : keel_emit_constant(all, KD_I64, 1, &ints.count, ints.at);
  give_values(all, list, item(all, x, 0), item(all, x, 1));
}

/* Values in the order of their keys, or each at its key's place in a row of max_map. */
static void expand_cast_map(keel_emit *all) {
  const char *to = keel_attr_string(all->node.op, "cast_to", "TO_FLOAT");
  const char *form = keel_attr_string(all->node.op, "map_form", "DENSE");
  int64_t most = keel_attr_int(all->node.op, "max_map", 1);
  uint32_t x = keel_emit_in(all, 0), keys = item(all, x, 0);
  uint32_t values = keel_emit_cast(all, item(all, x, 1),
                                   !strcmp(to, "TO_STRING")  ? KD_STRING
                                   : !strcmp(to, "TO_INT64") ? KD_I64
                                                             : KD_F32);
  if (!strcmp(form, "SPARSE")) {
    if (most < 1)
      keel_emit_fail(all, KD_INVALID_ARGUMENT,
                     "max_map is %lld, and must be 1 or more", (long long)most);
    uint32_t list = keel_emit_range(all, keel_emit_int(all, most));
    give_values(all, list, keys, values);
    return;
  }
  keel_emit_text(all,
                 "sorted, places = Unique(%v);"
                 "%0 = Unsqueeze(Gather(%v, places), {0})",
                 keys, values);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    ML("CastMap", 1, "any", "X:any% -> Y:any",
       "cast_to:s=TO_FLOAT|TO_STRING|TO_INT64 map_form:s=DENSE|SPARSE"
       " max_map:i=1",
       by_content),
    ML("DictVectorizer", 1, "any", "X:any% -> Y:any",
       "int64_vocabulary:I string_vocabulary:S", by_content),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.ml::CastMap", .expand = expand_cast_map},
    {"ai.onnx.ml::DictVectorizer", .expand = expand_dict_vectorizer},
};

const keel_op_table keel_ops_ml_maps = {KEEL_TABLE_ROWS(rows),
                                        KEEL_TABLE_RULES(rules)};
