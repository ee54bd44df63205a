/* work.c - bounds of kernels' work: each reads and writes elements, and the rules of ops add
 * further work. */
#include "passes/work.h"
#include "passes/passes.h"
#include "values/strings.h"

#define STEPS_EACH   4  /* of an element that is only read or written */
#define STRING_BYTES 32 /* of a string, beside its text */

static const keel_type *input_type(const keel_function *function,
                                   const keel_node *node, uint32_t index) {
  return index < node->input_count
             ? keel_pass_type(function, node->inputs[index])
             : NULL;
}

/* The strings of an input that is a constant; NULL: it is not, or is none of strings. */
static const keel_strings *strings_in(const keel_function *function,
                                      const keel_node *node, uint32_t index) {
  uint32_t value = node->inputs[index];
  const keel_tensor *constant =
      value == KEEL_ABSENT ? NULL : function->values[value].constant;
  return keel_is_strings(constant) ? constant->strings : NULL;
}

static uint64_t longest_of(const keel_strings *strings) {
  uint64_t longest = 0;
  for (int64_t i = 0; strings && i < strings->count; i++) {
    uint64_t size = keel_strings_get(strings, i).size;
    if (size > longest) longest = size;
  }
  return longest;
}

/* Of a string that is made of those that are read. */
static uint64_t bytes_of_string(const keel_function *function,
                                const keel_node *node) {
  uint64_t bytes = STRING_BYTES;
  for (uint32_t i = 0; i < node->input_count; i++)
    bytes = keel_plus(bytes, longest_of(strings_in(function, node, i)));
  return bytes;
}

uint64_t keel_steps_of(const keel_function *function, const keel_node *node) {
  keel_work s = {.node = node};
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_type *type = input_type(function, node, i);
    if (!type && node->inputs[i] != KEEL_ABSENT) return UINT64_MAX;
    const keel_strings *strings = strings_in(function, node, i);
    if (i < 8) s.in[i] = type;
    s.read = keel_plus(s.read, keel_work_elements(type));
    if (strings) s.read = keel_plus(s.read, strings->offsets[strings->count]);
  }
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    const keel_type *type =
        value == KEEL_ABSENT ? NULL : function->values[value].type;
    if (type && keel_type_known(type))
      s.written = keel_plus(s.written, keel_work_elements(type));
  }
  uint64_t steps = keel_times(keel_plus(s.read, s.written), STEPS_EACH);
  const keel_schema *schema = node->op->schema;
  return schema->steps ? keel_plus(steps, schema->steps(&s)) : steps;
}

uint64_t keel_bytes_of(const keel_function *function, const keel_node *node) {
  uint64_t bytes = 0, each = bytes_of_string(function, node);
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    if (value == KEEL_ABSENT) continue;
    const keel_type *type = function->values[value].type;
    if (type && keel_type_known(type)) {
      bool strings = type->dtype == KD_STRING;
      bytes =
          keel_plus(bytes, strings ? keel_times(keel_work_elements(type), each)
                                   : type->bytes);
      continue;
    }
    /* by the data: at most an index of each element that is read (NonZero), or as many parts of
     * each string as the longest one has (StringSplit) */
    for (uint32_t k = 0; k < node->input_count; k++) {
      const keel_type *in = input_type(function, node, k);
      bool strings = in && in->dtype == KD_STRING;
      uint64_t index = in ? keel_times(in->rank + 1, sizeof(int64_t)) : 0;
      bytes = keel_plus(
          bytes, keel_times(keel_work_elements(in),
                            strings ? keel_times(each, STRING_BYTES) : index));
    }
  }
  return bytes;
}
