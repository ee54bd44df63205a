/* on_strings.c - ops that move elements, or compare them for equality, on strings.
 *
 * The strings of all inputs become numbers: their places in the sorted list of all that differ.
 * So equal strings, and only they, have equal numbers, and numbers are in the strings' order. A
 * device's kernel does with the numbers what the op is for, and what it gives of them becomes
 * strings again. Number 0 is the empty string, which ops fill with.
 *
 * Cast is the exception: it reads and writes numbers as text. */
#include "opsets/strings/on_strings.h"

#include <kd/help.h>

#include "memory/access.h"
#include "values/strings.h"

static bool is_cast(const keel_opdef *op) {
  const char *name = op->schema->name;
  return !strcmp(op->schema->domain, "ai.onnx") &&
         (!strcmp(name, "Cast") || !strcmp(name, "CastLike"));
}

bool keel_concerns_strings(const keel_opdef *op, keel_tensor *const *inputs,
                           uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (keel_is_strings(inputs[i])) return true;
  return is_cast(op) && keel_attr_int(op, "to", KD_NONE) == KD_STRING;
}

/* ---- numbers for strings ----------------------------------------------------------- */

/* A string, and where its number goes. */
typedef struct numbered {
  keel_piece piece;
  int64_t *number;
} numbered;

typedef struct numbering {
  const keel_call_site *site;
  keel_tensor *const *inputs;
  uint32_t n;
  numbered *all;
  int64_t count;
  keel_piece *distinct; /* by number */
  int64_t distinct_count;
  keel_tensor **replaced; /* by input: its numbers, or itself; retained */
} numbering;

static int on_strings_compare(const void *a, const void *b) {
  return keel_piece_compare(&((const numbered *)a)->piece,
                            &((const numbered *)b)->piece);
}

static keel_status on_strings_fail(const keel_call_site *site,
                                   keel_status status, const char *what) {
  const char *where = site->where;
  return keel_fail(status, "%s%s%s%s: %s", site->op->schema->name,
                   *where ? " \"" : "", where, *where ? "\"" : "", what);
}

/* The inputs that strings and numbers may not share a type with have either. */
static keel_status check_types(const keel_call_site *site,
                               keel_tensor *const *inputs, uint32_t n) {
  const keel_schema *schema = site->op->schema;
  int8_t strings[8] = {0};
  const char *reduction = keel_attr_string(site->op, "reduction", "none");
  if (!(schema->traits & KEEL_OP_STRINGS))
    return on_strings_fail(site, KD_UNIMPLEMENTED, "takes no strings");
  /* sums of numbers may be numbers of other strings; the larger of two is one of them */
  if (!strcmp(reduction, "add") || !strcmp(reduction, "mul"))
    return on_strings_fail(
        site, KD_INVALID_ARGUMENT,
        "computes with its elements, which strings don't allow");
  for (uint32_t i = 0; i < n; i++) {
    const keel_param *param = keel_schema_input(schema, i);
    bool is = keel_is_strings(inputs[i]);
    if (!param || !inputs[i]) continue;
    if (is && param->types &&
        (param->types & KD_TYPES_PLAIN) != KD_TYPES_PLAIN) {
      char text[100];
      snprintf(text, sizeof text, "%s can't be strings", param->name);
      return on_strings_fail(site, KD_INVALID_ARGUMENT, text);
    }
    if (param->variable < 0) continue;
    int8_t kind = is ? 1 : -1, *all = &strings[param->variable];
    if (*all && *all != kind)
      return on_strings_fail(
          site, KD_INVALID_ARGUMENT,
          "strings and numbers can't be mixed; Cast one of them");
    *all = kind;
  }
  return KD_OK;
}

/* Whether an output has the type of inputs that are strings. */
static bool gives_strings(const numbering *all, uint32_t output) {
  const keel_schema *schema = all->site->op->schema;
  const keel_param *to = keel_schema_output(schema, output);
  for (uint32_t i = 0; to && to->variable >= 0 && i < all->n; i++) {
    const keel_param *from = keel_schema_input(schema, i);
    if (from && from->variable == to->variable &&
        keel_is_strings(all->inputs[i]))
      return true;
  }
  return false;
}

static keel_status on_strings_make_room(numbering *all) {
  int64_t count = 0;
  for (uint32_t i = 0; i < all->n; i++)
    if (keel_is_strings(all->inputs[i]) &&
        __builtin_add_overflow(count, all->inputs[i]->type->elements, &count))
      return keel_no_memory(UINT64_MAX);
  all->distinct = keel_pieces_new(count + 1);
  all->replaced = calloc((size_t)all->n + 1, sizeof(keel_tensor *));
  if (!all->distinct || !all->replaced) return KD_OUT_OF_MEMORY;
  /* no more than pieces, for which there is room */
  all->all = calloc((size_t)count + 1, sizeof *all->all);
  return all->all ? KD_OK : keel_no_memory((uint64_t)count * sizeof *all->all);
}

/* Tensors of numbers, which are not known yet. */
static keel_status on_strings_replace(numbering *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    keel_tensor *input = all->inputs[i];
    if (!keel_is_strings(input)) {
      all->replaced[i] = keel_tensor_retain(input);
      continue;
    }
    const keel_type *type = input->type;
    KEEL_TRY(keel_tensor_create(input->context, KD_I64, type->rank, type->dims,
                                NULL, &all->replaced[i]));
    for (int64_t k = 0; k < type->elements; k++)
      all->all[all->count++] =
          (numbered){keel_strings_get(input->strings, k),
                     (int64_t *)all->replaced[i]->data + k};
  }
  return KD_OK;
}

static keel_status make_numbers(numbering *all) {
  KEEL_TRY(on_strings_make_room(all));
  KEEL_TRY(on_strings_replace(all));
  if (all->count)
    qsort(all->all, (size_t)all->count, sizeof *all->all, on_strings_compare);
  all->distinct[all->distinct_count++] = (keel_piece){"", 0};
  for (int64_t i = 0; i < all->count; i++) {
    const numbered *at = &all->all[i];
    if (keel_piece_compare(&all->distinct[all->distinct_count - 1], &at->piece))
      all->distinct[all->distinct_count++] = at->piece;
    *at->number = all->distinct_count - 1;
  }
  return KD_OK;
}

static keel_status make_strings(const numbering *all, keel_tensor **tensor) {
  keel_tensor *numbers = NULL, *made = NULL;
  const keel_type *type = NULL;
  KEEL_TRY(keel_tensor_to_host(*tensor, &numbers));
  const int64_t *number = numbers->data;
  int64_t count = numbers->type->elements;
  keel_piece *pieces = keel_pieces_new(count);
  keel_status status = pieces ? KD_OK : KD_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count && status == KD_OK; i++)
    if (number[i] >= 0 && number[i] < all->distinct_count)
      pieces[i] = all->distinct[number[i]];
    else
      status = on_strings_fail(
          all->site, KD_INVALID_ARGUMENT,
          "computes with its elements, which strings don't allow");
  if (status == KD_OK)
    status = keel_type_of(KD_STRING, numbers->type->rank, numbers->type->dims,
                          &type);
  if (status == KD_OK)
    status = keel_strings_tensor(numbers->context, type, pieces, &made);
  free(pieces);
  keel_tensor_release(numbers);
  if (status != KD_OK) return status;
  keel_tensor_release(*tensor);
  *tensor = made;
  return KD_OK;
}

/* keel_call of the site's op, on a device. */
static keel_status call(const keel_call_site *site, keel_device *wanted,
                        keel_tensor *const *inputs, uint32_t n,
                        keel_tensor **outputs, uint32_t m) {
  const keel_opdef *op = site->op;
  char name[200];
  snprintf(name, sizeof name, "%s::%s", op->schema->domain, op->schema->name);
  keel_attr *attrs = calloc((size_t)op->attr_count + 1, sizeof *attrs);
  if (!attrs) return keel_no_memory(op->attr_count * sizeof *attrs);
  for (uint32_t i = 0; i < op->attr_count; i++)
    attrs[i] = op->attrs[i].value;
  keel_status status = keel_device_push(wanted);
  if (status == KD_OK) {
    status = keel_call(op->context, name, attrs, op->attr_count, inputs, n,
                       outputs, m);
    keel_device_pop();
  }
  free(attrs);
  return status == KD_OK || !*site->where
             ? status
             : keel_while(status, "in node \"%s\", on strings", site->where);
}

keel_status keel_call_on_strings(const keel_call_site *site,
                                 keel_device *wanted,
                                 keel_tensor *const *inputs, uint32_t n,
                                 keel_tensor **outputs, uint32_t m) {
  numbering all = {.site = site, .inputs = inputs, .n = n};
  if (is_cast(site->op))
    return keel_text_cast(site->op, site->where, inputs, n, &outputs[0]);
  KEEL_TRY(check_types(site, inputs, n));
  keel_status status = make_numbers(&all);
  if (status == KD_OK) status = call(site, wanted, all.replaced, n, outputs, m);
  for (uint32_t i = 0; i < m && status == KD_OK; i++)
    if (outputs[i] && gives_strings(&all, i))
      status = make_strings(&all, &outputs[i]);
  for (uint32_t i = 0; status != KD_OK && i < m; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  for (uint32_t i = 0; all.replaced && i < n; i++)
    keel_tensor_release(all.replaced[i]);
  free(all.replaced);
  free(all.distinct);
  free(all.all);
  return status;
}
