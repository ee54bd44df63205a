/* batch.c - whether a program treats the rows of its inputs apart: then each of two ranks computes
 * its half of the batch without an exchange, and gives half of each output.
 *
 * The rules know along which axes each op computes; sizes alone would not do, as a
 * Softmax over the batch has the sizes of one over features. Two batches of twice a large prime
 * keep numbers that a model has for other reasons from passing for its batch. */
#include "device/device.h"
#include "ranks/split/split.h"

static const int64_t batches[] = {2 * 1009, 2 * 2003};
#define OTHERS \
  64 /* of other open dimensions: divisible, as networks over pictures want it */

typedef struct batch_sizes {
  const keel_program *program;
  int64_t batch;
} batch_sizes;

/* KD_OK, or why it has no batch. */
static keel_status check_port(const keel_port *port, const char *what) {
  if (!keel_port_is_tensor(port))
    return keel_fail(KD_FAILED_PRECONDITION, "%s \"%s\" is not a tensor", what,
                     port->name);
  if (port->rank == KEEL_RANK_UNKNOWN || !port->rank || port->dims[0] >= 0)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the first dimension of %s \"%s\" is not open", what,
                     port->name);
  for (uint32_t d = 1; port->symbols && d < port->rank; d++)
    if (port->symbols[d] && port->symbols[0] && port->dims[d] < 0 &&
        !strcmp(port->symbols[d], port->symbols[0]))
      return keel_fail(KD_FAILED_PRECONDITION,
                       "dimension %u of %s \"%s\" is as long as its batch",
                       (unsigned)d, what, port->name);
  return KD_OK;
}

/* As keel_split_params asks for them. */
static int64_t size_in_batch(void *context, const char *input, uint32_t axis,
                             const char *symbol) {
  const batch_sizes *sizes = context;
  const keel_function *f = sizes->program->main;
  (void)input;
  for (uint32_t i = 0; symbol && i < f->input_count; i++) {
    const keel_port *port = &f->input_ports[i];
    if (axis && port->symbols && port->symbols[0] &&
        !strcmp(port->symbols[0], symbol))
      return -1; /* of another input: not known */
  }
  return axis ? OTHERS : sizes->batch;
}

/* Whether each output is half of the one for the whole batch. */
static keel_status check_pieces(const keel_function *f,
                                const keel_split_piece *pieces, int64_t batch) {
  for (uint32_t i = 0; i < f->output_count; i++) {
    const keel_type *type = f->values[f->outputs[i]].type;
    if (!pieces[i].part || pieces[i].axis || !type || !type->rank ||
        type->dims[0] * 2 != batch)
      return keel_fail(KD_FAILED_PRECONDITION,
                       "output \"%s\" does not have a row for each row of the "
                       "inputs",
                       f->output_ports[i].name);
  }
  return KD_OK;
}

/* ---- numbers that come from the batch ---------------------------------------------- */

/* Whether an input is the shape of the result, which is compared. */
static bool is_shape(const keel_node *node, uint32_t input) {
  const char *op = node->op->schema->name;
  return input == 1 ? !strcmp(op, "Reshape") || !strcmp(op, "Expand")
                    : input == 0 && !strcmp(op, "ConstantOfShape");
}

/* Whether all elements are the first of `like`, as in a state that begins with zeros. */
static bool is_filled(const keel_tensor *tensor, const keel_tensor *like) {
  const uint64_t size = kd_dtype_size(tensor->type->dtype);
  if (!size || !tensor->data || !like->data || !like->type->bytes) return false;
  for (uint64_t at = 0; at < tensor->type->bytes; at += size)
    if (memcmp((const char *)tensor->data + at, like->data, size) != 0)
      return false;
  return true;
}

/* Whether a constant is the same for both batches, but for its size. */
static bool is_same(const keel_tensor *a, const keel_tensor *b) {
  if (a == b || !a || !b || a->kind != KEEL_DATA || b->kind != KEEL_DATA)
    return a == b || (a && b && a->kind == b->kind);
  if (a->data == b->data && a->type == b->type) return true;
  if (a->type->dtype != b->type->dtype || a->type->rank != b->type->rank)
    return false;
  return is_filled(a, a) ? is_filled(b, a)
                         : a->type == b->type && a->data && b->data &&
                               !memcmp(a->data, b->data, a->type->bytes);
}

/* How many dimensions of a value depend on the batch. */
static uint32_t dims_of_batch(const keel_function *a, const keel_function *b,
                              uint32_t value) {
  if (value == KEEL_ABSENT) return 0;
  const keel_type *one = a->values[value].type, *two = b->values[value].type;
  uint32_t count = 0;
  if (!one || !two || one == two) return 0;
  if (one->rank != two->rank) return UINT32_MAX;
  for (uint32_t d = 0; d < one->rank; d++)
    count += one->dims[d] != two->dims[d];
  return count;
}

/* A node may take the number of rows as a size, but not compute with it; and no value has it as two
 * sizes, or is made of all rows without having it. */
static bool keeps_rows(const keel_function *a, const keel_function *b,
                       const keel_node *node) {
  bool has_rows = false;
  for (uint32_t k = 0; k < node->input_count; k++) {
    uint32_t value = node->inputs[k];
    has_rows |= dims_of_batch(a, b, value) > 0;
    if (value != KEEL_ABSENT && !is_shape(node, k) &&
        !is_same(a->values[value].constant, b->values[value].constant))
      return false;
  }
  for (uint32_t k = 0; k < node->output_count; k++) {
    uint32_t value = node->outputs[k];
    uint32_t dims = dims_of_batch(a, b, value);
    if (value != KEEL_ABSENT && (dims > 1 || (has_rows && !dims))) return false;
  }
  return true;
}

/* The functions are one program's, for two batches. */
static keel_status check_numbers(const keel_function *a,
                                 const keel_function *b) {
  if (a->node_count != b->node_count || a->value_count != b->value_count)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the number of rows decides which ops there are");
  for (uint32_t i = 0; i < a->input_count; i++)
    if (!keel_split_can_be_part(a->values[a->inputs[i]].type))
      return keel_fail(KD_FAILED_PRECONDITION,
                       "input \"%s\" can't be cut into rows",
                       a->input_ports[i].name);
  for (uint32_t i = 0; i < a->node_count; i++) {
    const keel_node *node = &a->nodes[i];
    if (!node->dead && !keeps_rows(a, b, node))
      return keel_fail(KD_FAILED_PRECONDITION,
                       "%s%s%s%s computes with the number of rows",
                       node->op->schema->name, *node->name ? " \"" : "",
                       node->name, *node->name ? "\"" : "");
  }
  return KD_OK;
}

/* ---- both batches --------------------------------------------------------------------- */

static keel_split_params params_of(batch_sizes *sizes) {
  return (keel_split_params){.struct_size = sizeof(keel_split_params),
                             .kind = KEEL_SPLIT_DATA,
                             .size = 2,
                             .size_of = size_in_batch,
                             .size_context = sizes};
}

static keel_status draft_of(const keel_program *program, int64_t batch,
                            keel_program **out_draft) {
  batch_sizes sizes = {program, batch};
  const keel_split_params params = params_of(&sizes);
  KEEL_TRY(keel_program_create(program->context, out_draft));
  keel_status status = keel_split_copy(*out_draft, program, &params);
  if (status == KD_OK || status == KD_OUT_OF_MEMORY) return status;
  keel_while(status, "planning a batch of %lld rows", (long long)batch);
  return keel_fail_text(KD_FAILED_PRECONDITION, keel_message());
}

/* Splits it; the draft is used up. */
static keel_status try_batch(keel_program *draft, int64_t batch) {
  const keel_split_params params = params_of(NULL);
  bool meets = false;
  keel_split_piece *pieces =
      calloc((size_t)draft->main->output_count + 1, sizeof *pieces);
  if (!pieces) return keel_no_memory(draft->main->output_count);
  keel_clear_error();
  keel_status status =
      keel_split_batch(draft->main, &params, true, pieces, &meets);
  if (meets) /* the message says which node needs all of it */
    status = keel_has_error()
                 ? keel_fail_text(KD_FAILED_PRECONDITION, keel_message())
                 : keel_fail(KD_FAILED_PRECONDITION,
                             "an output is a sum over the batch");
  if (status == KD_OK) status = check_pieces(draft->main, pieces, batch);
  free(pieces);
  return status;
}

static keel_status try_both(const keel_program *program) {
  keel_program *drafts[2] = {NULL};
  keel_status status = KD_OK;
  for (int i = 0; i < 2 && status == KD_OK; i++)
    status = draft_of(program, batches[i], &drafts[i]);
  if (status == KD_OK) status = check_numbers(drafts[0]->main, drafts[1]->main);
  for (int i = 0; i < 2 && status == KD_OK; i++)
    status = try_batch(drafts[i], batches[i]);
  for (int i = 0; i < 2; i++)
    if (drafts[i]) keel_program_release(drafts[i]);
  return status;
}

keel_status keel_program_batch(const keel_program *program) {
  const keel_function *f = program->main;
  if (program->device)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the program was compiled for %s: its rules are gone",
                     program->device->name);
  if (keel_program_is_random(program))
    return keel_fail(KD_FAILED_PRECONDITION,
                     "an op gives random numbers, which depend on the rows "
                     "before");
  for (uint32_t i = 0; i < f->input_count; i++)
    KEEL_TRY(check_port(&f->input_ports[i], "input"));
  if (!f->input_count)
    return keel_fail(KD_FAILED_PRECONDITION, "the program has no input");
  return try_both(program);
}
