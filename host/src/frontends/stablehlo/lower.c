/* lower.c - functions and blocks, and which lowering an op has. */
#include "frontends/stablehlo/lower.h"

#include "program/builder.h"

/* So that a small file can't ask for all of the memory: a function is written out as often
 * as it is called. */
#define OPS_LEAST    20000
#define OPS_PER_BYTE 4

static const struct {
  const char *name;
  hlo_lowering lower;
  unsigned flags;
} lowerings[] = {
#define LOWER(name, function, flags, limits) {#name, hlo_##function, flags},
#include "frontends/stablehlo/lower.def"
#undef LOWER
};

/* ---- failing --------------------------------------------------------------------------- */

keel_status hlo_refuse(const hlo *h, const hlo_op *op, const char *format,
                       ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return vhlo_fail(&h->v, op->raw, KD_UNIMPLEMENTED, " is not supported: %s",
                   text);
}

keel_status hlo_wrong(const hlo *h, const hlo_op *op, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return vhlo_fail(&h->v, op->raw, KD_DATA_LOSS, " can't be: %s", text);
}

/* ---- values ----------------------------------------------------------------------------- */

const vhlo_type *hlo_type_of(const hlo *h, uint32_t value) {
  return &h->v.types[h->v.file.value_types[value]];
}

keel_value hlo_here(hlo *h, keel_value value, uint32_t level) {
  for (uint32_t i = level + 1; i <= h->level; i++)
    value = keel_builder_capture(h->levels[i], value);
  return value;
}

/* The lowered form of a value must have the type that the file declares: arguments of blocks and
 * casts declare theirs anew. In a body of scalars for tensors shapes differ. */
static keel_status check_bound(const hlo *h, const bytecode_op *op,
                               const vhlo_type *type, keel_value value) {
  const keel_type *have = hlo_known(h, value);
  if (!have) return KD_OK;
  bool equal = have->dtype == hlo_part_type(type->dtype);
  if (!h->many) {
    equal = equal && have->rank == type->rank;
    for (uint32_t i = 0; equal && i < type->rank; i++)
      equal = have->dims[i] == type->dims[i] || have->dims[i] < 0 ||
              type->dims[i] < 0;
  }
  if (equal) return KD_OK;
  char text[128];
  return vhlo_fail(&h->v, op, KD_DATA_LOSS,
                   " uses a value as %s of rank %u that is %s", type->what,
                   (unsigned)type->rank,
                   keel_type_text(have, text, sizeof text));
}

keel_status hlo_value(hlo *h, const bytecode_op *op, uint32_t value,
                      keel_value *out_value, keel_value *out_imaginary) {
  hlo_bound *bound = &h->bound[value];
  const vhlo_type *type = hlo_type_of(h, value);
  hlo_bound whole;
  bool has_parts = hlo_is_complex(type->dtype);
  if (type->kind != VHLO_TENSOR || type->dtype == KD_NONE)
    return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                     " is not supported: a value is of type %s", type->what);
  if (has_parts && !out_imaginary)
    return vhlo_fail(&h->v, op, KD_UNIMPLEMENTED,
                     " is not supported: complex numbers");
  if (bound->value == KEEL_ABSENT || bound->level > h->level ||
      (has_parts && bound->imaginary == KEEL_ABSENT))
    return vhlo_fail(&h->v, op, KD_DATA_LOSS,
                     " uses a value that is not defined");
  if (bound->sharding) {
    KEEL_TRY(hlo_split_as(h, op, bound, 0, &whole));
    if (whole.level == bound->level) *bound = whole; /* for the next one */
    bound = &whole;
  }
  *out_value = hlo_here(h, bound->value, bound->level);
  if (out_imaginary)
    *out_imaginary =
        has_parts ? hlo_here(h, bound->imaginary, bound->level) : KEEL_ABSENT;
  KEEL_TRY(check_bound(h, op, type, *out_value));
  return has_parts ? check_bound(h, op, type, *out_imaginary) : KD_OK;
}

static void lower_bind(hlo *h, uint32_t value, keel_value real,
                       keel_value imaginary, const bytecode_op *maker) {
  h->bound[value] = (hlo_bound){
      .value = real, .imaginary = imaginary, .level = h->level, .maker = maker};
}

/* ---- bodies of ops ------------------------------------------------------------------------ */

keel_status hlo_enter(hlo *h, const char *name, keel_builder **out_body) {
  *out_body = NULL;
  if (h->level + 1 == HLO_LEVELS_MOST)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: loops and branches are nested more than %u deep",
                     h->v.file.path, HLO_LEVELS_MOST);
  KEEL_TRY(keel_builder_body(h->at, name, out_body));
  h->at = h->levels[++h->level] = *out_body;
  return KD_OK;
}

void hlo_leave(hlo *h) {
  h->at = h->levels[--h->level];
}

/* ---- an op ----------------------------------------------------------------------------- */

/* Names the nodes that an op becomes: "dot_general.12", where 12 is the first's number. */
static void name_nodes(hlo *h, const bytecode_op *op) {
  char name[96];
  snprintf(name, sizeof name, "%.*s.%llu", (int)vhlo_name_size(op), op->name,
           (unsigned long long)h->made);
  keel_builder_node_name(h->at, name);
}

/* The lowered values of an op must have the declared types. */
static keel_status lower_check_value(const hlo *h, const hlo_op *op, uint32_t i,
                                     keel_value value) {
  char text[128], wanted[128];
  const vhlo_type *want = op->out_types[i];
  const keel_type *have = hlo_known(h, value), *named = NULL;
  kd_dtype dtype = hlo_part_type(want->dtype);
  if (value == KEEL_ABSENT)
    return hlo_wrong(h, op, "result %u is not made", (unsigned)i);
  if (!have) return KD_OK;
  bool equal = have->dtype == dtype;
  if (!h->many) {
    equal = equal && have->rank == want->rank;
    for (uint32_t k = 0; equal && k < want->rank; k++)
      equal = have->dims[k] == want->dims[k] || have->dims[k] < 0 ||
              want->dims[k] < 0;
  }
  if (equal) return KD_OK;
  KEEL_TRY(keel_type_of(dtype, want->rank, want->dims, &named));
  return hlo_wrong(h, op, "result %u is declared as %s, and its inputs give %s",
                   (unsigned)i, keel_type_text(named, wanted, sizeof wanted),
                   keel_type_text(have, text, sizeof text));
}

static bool has_complex(const hlo_op *op) {
  bool found = false;
  for (uint32_t i = 0; i < op->input_count; i++)
    found = found || hlo_is_complex(op->in_types[i]->dtype);
  for (uint32_t i = 0; i < op->output_count; i++)
    found = found || hlo_is_complex(op->out_types[i]->dtype);
  return found;
}

static keel_status lower_run(hlo *h, const hlo_op *op, hlo_lowering lower,
                             unsigned flags) {
  keel_status status =
      has_complex(op) ? hlo_lower_complex(h, op, lower, flags) : lower(h, op);
  KEEL_TRY(status);
  hlo_at(h); /* the builder knows what has failed */
  if (h->at->status != KD_OK) {
    status = h->at->status;
    if (status == KD_INVALID_ARGUMENT) status = KD_DATA_LOSS;
    return vhlo_fail(&h->v, op->raw, status, ": %s", h->at->message);
  }
  for (uint32_t i = 0; i < op->output_count; i++) {
    KEEL_TRY(lower_check_value(h, op, i, op->out[i]));
    if (hlo_is_complex(op->out_types[i]->dtype))
      KEEL_TRY(lower_check_value(h, op, i, op->out_imag[i]));
  }
  return KD_OK;
}

static keel_status fill_op(hlo *h, const bytecode_op *raw, hlo_op *op) {
  for (uint32_t i = 0; i < raw->operand_count; i++) {
    op->in_types[i] = hlo_type_of(h, raw->operands[i]);
    KEEL_TRY(hlo_value(h, raw, raw->operands[i], &op->in[i], &op->in_imag[i]));
  }
  for (uint32_t i = 0; i < raw->result_count; i++) {
    const vhlo_type *type = hlo_type_of(h, raw->first_result + i);
    op->out_types[i] = type;
    op->out[i] = op->out_imag[i] = KEEL_ABSENT;
    if (type->kind != VHLO_TENSOR || type->dtype == KD_NONE)
      return hlo_refuse(h, op, "its result is of type %s", type->what);
  }
  return KD_OK;
}

static keel_status lower_tensors(hlo *h, const bytecode_op *raw,
                                 hlo_lowering lower, unsigned flags) {
  size_t count = (size_t)raw->operand_count + raw->result_count;
  keel_value *values = calloc(2 * count + 1, sizeof *values);
  const vhlo_type **types = calloc(count + 1, sizeof *types);
  keel_status status = values && types ? KD_OK : keel_no_memory(count);
  if (status == KD_OK) {
    hlo_op op = {.raw = raw,
                 .input_count = raw->operand_count,
                 .output_count = raw->result_count,
                 .in = values,
                 .out = values + raw->operand_count,
                 .in_imag = values + count,
                 .out_imag = values + count + raw->operand_count,
                 .in_types = types,
                 .out_types = types + raw->operand_count};
    status = fill_op(h, raw, &op);
    if (status == KD_OK) status = lower_run(h, &op, lower, flags);
    for (uint32_t i = 0; i < raw->result_count && status == KD_OK; i++)
      lower_bind(h, raw->first_result + i, op.out[i], op.out_imag[i], raw);
  }
  free(values);
  free(types);
  return status;
}

/* ---- tuples ------------------------------------------------------------------------------ */

static keel_status make_tuple(hlo *h, const bytecode_op *raw) {
  hlo_bound *items = NULL;
  if (raw->result_count != 1)
    return vhlo_fail(&h->v, raw, KD_DATA_LOSS, " has no result");
  if (!KEEL_ARENA_ARRAY(&h->v.file.arena, items, raw->operand_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < raw->operand_count; i++)
    items[i] = h->bound[raw->operands[i]];
  h->bound[raw->first_result] =
      (hlo_bound){.value = KEEL_ABSENT, .level = h->level, .items = items};
  const vhlo_type *type = hlo_type_of(h, raw->first_result);
  if (type->kind == VHLO_TUPLE && type->count == raw->operand_count)
    return KD_OK;
  return vhlo_fail(&h->v, raw, KD_DATA_LOSS, " is not a tuple of its operands");
}

static keel_status take_of_tuple(hlo *h, const bytecode_op *raw) {
  int64_t index = 0;
  KEEL_TRY(vhlo_int(&h->v, raw, "index", &index));
  if (raw->operand_count != 1 || raw->result_count != 1)
    return vhlo_fail(&h->v, raw, KD_DATA_LOSS, " does not have one operand");
  const vhlo_type *type = hlo_type_of(h, raw->operands[0]);
  const hlo_bound *bound = &h->bound[raw->operands[0]];
  if (type->kind != VHLO_TUPLE || !bound->items || index < 0 ||
      index >= type->count)
    return vhlo_fail(&h->v, raw, KD_DATA_LOSS, " takes %lld of no such tuple",
                     (long long)index);
  if (type->items[index] != h->v.file.value_types[raw->first_result])
    return vhlo_fail(&h->v, raw, KD_DATA_LOSS,
                     " does not have the type of the tuple's item");
  h->bound[raw->first_result] = bound->items[index];
  return KD_OK;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Ops that state the sharding of a value among devices (Shardy's dialect), and the casts around it
 * between VHLO's types and MLIR's own: the value itself on one device. */
static bool passes_on(const bytecode_op *raw) {
  bool cast = !strcmp(raw->dialect, "builtin") &&
              !strcmp(raw->name, "unrealized_conversion_cast");
  bool shared = !strcmp(raw->dialect, "sdy") &&
                (!strcmp(raw->name, "sharding_constraint") ||
                 !strcmp(raw->name, "reshard"));
  return (cast || shared) && raw->operand_count == 1 && raw->result_count == 1;
}

static keel_status lower_op(hlo *h, const bytecode_op *raw) {
  if (!strcmp(raw->dialect, "vhlo") && !vhlo_known(raw))
    return vhlo_fail(&h->v, raw, KD_UNIMPLEMENTED,
                     " (%s) is of a later version of StableHLO than Keel knows;"
                     " serialize the program for an older one",
                     raw->name);
  if (vhlo_is(raw, "tuple")) return make_tuple(h, raw);
  if (vhlo_is(raw, "get_tuple_element")) return take_of_tuple(h, raw);
  if (!strcmp(raw->dialect, "sdy") && !strcmp(raw->name, "manual_computation"))
    return hlo_manual(h, raw);
  if (passes_on(raw)) {
    h->bound[raw->first_result] = h->bound[raw->operands[0]];
    return KD_OK;
  }
  for (size_t i = 0; i < KEEL_COUNT_OF(lowerings); i++) {
    if (!vhlo_is(raw, lowerings[i].name)) continue;
    unsigned flags = lowerings[i].flags;
    if (h->many && !(flags & HLO_ELEMENTS))
      return vhlo_fail(&h->v, raw, KD_UNIMPLEMENTED,
                       " is not supported in the body of a reduction");
    if (!h->many) name_nodes(h, raw);
    return lower_tensors(h, raw, lowerings[i].lower, flags);
  }
  return vhlo_fail(&h->v, raw, KD_UNIMPLEMENTED, " is not supported");
}

/* The values that a block returns. imaginary: NULL where none may be complex. */
static keel_status take_return(hlo *h, const bytecode_op *op,
                               const hlo_values *outputs) {
  if (op->operand_count != outputs->count)
    return vhlo_fail(&h->v, op, KD_DATA_LOSS,
                     " has %u operands, and %u are needed",
                     (unsigned)op->operand_count, (unsigned)outputs->count);
  for (uint32_t k = 0; k < outputs->count; k++)
    KEEL_TRY(hlo_value(h, op, op->operands[k], &outputs->real[k],
                       outputs->imaginary ? &outputs->imaginary[k] : NULL));
  return KD_OK;
}

static bool is_return(const bytecode_op *op) {
  return vhlo_is(op, "return") ||
         (!strcmp(op->dialect, "sdy") && !strcmp(op->name, "return"));
}

keel_status hlo_ops(hlo *h, const bytecode_block *block,
                    const bytecode_op **out_end) {
  for (uint32_t i = 0; i < block->op_count; i++) {
    const bytecode_op *op = &block->ops[i];
    if (++h->made > h->most)
      return keel_fail(KD_UNIMPLEMENTED,
                       "%s: needs more than %llu ops, too many for a file of"
                       " its size",
                       h->v.file.path, (unsigned long long)h->most);
    if (is_return(op)) {
      *out_end = op;
      return KD_OK;
    }
    KEEL_TRY(lower_op(h, op));
  }
  return keel_fail(KD_DATA_LOSS, "%s: a block has no return", h->v.file.path);
}

keel_status hlo_block(hlo *h, const bytecode_block *block,
                      const hlo_values *outputs) {
  const bytecode_op *end = NULL;
  KEEL_TRY(hlo_ops(h, block, &end));
  return take_return(h, end, outputs);
}

keel_status hlo_block_with(hlo *h, const bytecode_block *block,
                           const hlo_values *inputs,
                           const hlo_values *outputs) {
  if (block->argument_count != inputs->count)
    return keel_fail(KD_DATA_LOSS, "%s: a block has %u arguments, and gets %u",
                     h->v.file.path, (unsigned)block->argument_count,
                     (unsigned)inputs->count);
  for (uint32_t i = 0; i < inputs->count; i++)
    lower_bind(h, block->first_argument + i, inputs->real[i],
               inputs->imaginary ? inputs->imaginary[i] : KEEL_ABSENT, NULL);
  return hlo_block(h, block, outputs);
}

/* The arguments of a body of scalars must be scalars of the types that it gets. */
static keel_status check_body(const hlo *h, const hlo_op *op,
                              const bytecode_block *block,
                              const keel_value *inputs, uint32_t count) {
  if (block->argument_count != count)
    return hlo_wrong(h, op, "its body has %u arguments, and %u are needed",
                     (unsigned)block->argument_count, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    const vhlo_type *type = hlo_type_of(h, block->first_argument + i);
    const keel_type *given = hlo_known(h, inputs[i]);
    if (type->kind != VHLO_TENSOR || type->rank)
      return hlo_wrong(h, op, "argument %u of its body is not a scalar",
                       (unsigned)i);
    if (given && given->dtype != type->dtype)
      return hlo_refuse(h, op, "its body takes %s, and its inputs are %s",
                        keel_dtype_name(type->dtype),
                        keel_dtype_name(given->dtype));
  }
  return KD_OK;
}

keel_status hlo_body(
    hlo *h, const hlo_op *op, const bytecode_block *block,
    const keel_value *inputs, uint32_t input_count, uint32_t count,
    keel_value *outputs) { /* NOLINT(readability-non-const-parameter) */
  bool before = h->many;
  KEEL_TRY(check_body(h, op, block, inputs, input_count));
  h->many = true;
  const hlo_values in = {.real = (keel_value *)(uintptr_t)inputs,
                         .count = input_count};
  const hlo_values out = {.real = outputs, .count = count};
  keel_status status = hlo_block_with(h, block, &in, &out);
  h->many = before;
  return status;
}

/* ---- functions ------------------------------------------------------------------------------ */

const bytecode_block *hlo_module(const hlo *h) {
  const bytecode_block *top = &h->v.file.top;
  const bytecode_op *module = top->op_count == 1 ? &top->ops[0] : NULL;
  bool right = module && !strcmp(module->dialect, "builtin") &&
               !strcmp(module->name, "module") && module->region_count == 1;
  return right ? &module->regions[0] : NULL;
}

const bytecode_op *hlo_function(const hlo *h, const char *name) {
  const bytecode_block *module = hlo_module(h);
  for (uint32_t i = 0; module && i < module->op_count; i++) {
    const bytecode_op *op = &module->ops[i];
    const char *own = NULL;
    if (vhlo_is(op, "func") && op->region_count == 1 &&
        vhlo_string(&h->v, op, "sym_name", &own) == KD_OK && !strcmp(own, name))
      return op;
  }
  return NULL;
}

keel_status hlo_call(hlo *h, const hlo_op *op, const char *name) {
  const bytecode_op *function = hlo_function(h, name);
  if (!function) return hlo_wrong(h, op, "there is no function \"%s\"", name);
  for (uint32_t i = 0; i < h->call_count; i++)
    if (h->calls[i] == function)
      return hlo_refuse(h, op, "function \"%s\" calls itself", name);
  const bytecode_block *block = &function->regions[0];
  if (block->argument_count != op->input_count)
    return hlo_wrong(h, op, "function \"%s\" takes %u values, and gets %u",
                     name, (unsigned)block->argument_count,
                     (unsigned)op->input_count);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (h->v.file.value_types[op->raw->operands[i]] !=
        h->v.file.value_types[block->first_argument + i])
      return hlo_wrong(h, op, "function \"%s\" takes another type for value %u",
                       name, (unsigned)i);
  h->calls[h->call_count++] = function;
  const hlo_values in = {op->in, op->in_imag, op->input_count};
  const hlo_values out = {op->out, op->out_imag, op->output_count};
  keel_status status = hlo_block_with(h, block, &in, &out);
  h->call_count--;
  return status;
}

/* ---- the program -------------------------------------------------------------------------------- */

/* The function with a name; without one "main", or else the only public one. */
static keel_status find_main(hlo *h, const char *name,
                             const bytecode_op **out_main) {
  const bytecode_block *module = hlo_module(h);
  uint32_t public_count = 0;
  if (!module)
    return keel_fail(KD_DATA_LOSS, "%s: has no module of functions",
                     h->v.file.path);
  const bytecode_op *named = hlo_function(h, name ? name : "main");
  for (uint32_t i = 0; i < module->op_count; i++) {
    const bytecode_op *op = &module->ops[i];
    const char *sees = NULL;
    if (!vhlo_is(op, "func") || op->region_count != 1) continue;
    h->function_count++;
    KEEL_TRY(vhlo_string(&h->v, op, "sym_visibility", &sees));
    if (!strcmp(sees, "private")) continue;
    public_count++;
    *out_main = op;
  }
  if (named) *out_main = named;
  if (named || (public_count == 1 && !name)) return KD_OK;
  return keel_fail(KD_UNIMPLEMENTED,
                   "%s: has %u public functions, and none is \"%s\": export"
                   " one with that name",
                   h->v.file.path, (unsigned)public_count,
                   name ? name : "main");
}

static keel_status check_port(const hlo *h, const bytecode_op *main,
                              const vhlo_type *type, const char *what,
                              uint32_t number) {
  if (type->kind == VHLO_TENSOR && type->dtype != KD_NONE &&
      type->dtype != KD_C128)
    return KD_OK;
  return vhlo_fail(&h->v, main, KD_UNIMPLEMENTED,
                   " is not supported: %s %u is of type %s%s", what,
                   (unsigned)number, type->what,
                   type->dtype == KD_C128 ? "<f64>" : "");
}

/* How a port of main is split: by JAX's attribute, or not at all. */
static keel_status port_sharding(const hlo *h, const bytecode_op *main,
                                 const char *ports, uint32_t index,
                                 uint32_t *out_sharding) {
  uint32_t attribute = BYTECODE_NONE;
  *out_sharding = 0;
  KEEL_TRY(vhlo_port_attribute(&h->v, main, ports, index, "sdy.sharding",
                               &attribute));
  return attribute == BYTECODE_NONE ? KD_OK
                                    : hlo_sharding(h, attribute, out_sharding);
}

static keel_status note_sharding(hlo *h, uint32_t sharding,
                                 const char **out_text) {
  char text[256];
  *out_text = NULL;
  if (!sharding) return KD_OK;
  KEEL_TRY(hlo_sharding_text(h, sharding, text, sizeof text));
  *out_text = keel_arena_copy(&h->v.file.arena, text);
  return *out_text ? KD_OK : KD_OUT_OF_MEMORY;
}

static keel_status lower_add_inputs(hlo *h, const bytecode_op *main) {
  const bytecode_block *block = &main->regions[0];
  h->in_count = block->argument_count;
  if (!KEEL_ARENA_ARRAY(&h->v.file.arena, h->in_shardings, h->in_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < block->argument_count; i++) {
    const vhlo_type *type = hlo_type_of(h, block->first_argument + i);
    char name[32];
    KEEL_TRY(check_port(h, main, type, "input", i));
    snprintf(name, sizeof name, "arg%u", (unsigned)i);
    keel_value imaginary = KEEL_ABSENT;
    int64_t dims[KD_MAX_RANK];
    uint32_t sharding = 0;
    memcpy(dims, type->dims, sizeof dims);
    KEEL_TRY(port_sharding(h, main, "arg_attrs", i, &sharding));
    KEEL_TRY(hlo_part_dims(h, main, sharding, type->rank, dims));
    keel_value value =
        keel_builder_input(h->at, name, type->dtype, type->rank, dims);
    if (hlo_is_complex(type->dtype)) hlo_split(h, value, &value, &imaginary);
    lower_bind(h, block->first_argument + i, value, imaginary, NULL);
    h->bound[block->first_argument + i].sharding = sharding;
    KEEL_TRY(note_sharding(h, sharding, &h->in_shardings[i]));
  }
  return KD_OK;
}

/* That a value is a part of what the file declares. */
static keel_status check_part(const hlo *h, const bytecode_op *op,
                              const vhlo_type *type, const hlo_bound *bound) {
  int64_t dims[KD_MAX_RANK];
  const keel_type *have = hlo_known(h, bound->value);
  memcpy(dims, type->dims, sizeof dims);
  KEEL_TRY(hlo_part_dims(h, op, bound->sharding, type->rank, dims));
  bool right = bound->value != KEEL_ABSENT && bound->level <= h->level &&
               have && have->rank == type->rank &&
               have->dtype == hlo_part_type(type->dtype);
  for (uint32_t i = 0; right && i < type->rank; i++)
    right = have->dims[i] == dims[i];
  return right ? KD_OK
               : vhlo_fail(&h->v, op, KD_DATA_LOSS,
                           " returns a value that is not the shard of %s of "
                           "rank %u that it declares",
                           type->what, (unsigned)type->rank);
}

/* As JAX wants it split, or as it is. */
static keel_status add_output(hlo *h, const bytecode_op *main,
                              const bytecode_op *end, uint32_t index) {
  uint32_t value = end->operands[index], attribute = BYTECODE_NONE;
  const vhlo_type *type = hlo_type_of(h, value);
  hlo_bound bound = h->bound[value];
  char name[32];
  KEEL_TRY(check_port(h, main, type, "result", index));
  snprintf(name, sizeof name, "result%u", (unsigned)index);
  KEEL_TRY(vhlo_port_attribute(&h->v, main, "res_attrs", index, "sdy.sharding",
                               &attribute));
  uint32_t sharding = bound.sharding;
  if (attribute != BYTECODE_NONE)
    KEEL_TRY(hlo_sharding(h, attribute, &sharding));
  if (!bound.sharding) /* checks it, as of any other op */
    KEEL_TRY(hlo_value(h, end, value, &bound.value, &bound.imaginary));
  else
    KEEL_TRY(check_part(h, end, type, &bound));
  KEEL_TRY(hlo_split_as(h, end, &bound, sharding, &bound));
  keel_value out = hlo_is_complex(type->dtype)
                       ? hlo_join(h, bound.value, bound.imaginary)
                       : bound.value;
  hlo_at(h); /* the builder knows what has failed */
  KEEL_TRY(keel_builder_output(h->at, name, out));
  return note_sharding(h, sharding, &h->out_shardings[index]);
}

static keel_status lower_add_outputs(hlo *h, const bytecode_op *main) {
  const bytecode_op *end = NULL;
  KEEL_TRY(hlo_ops(h, &main->regions[0], &end));
  h->out_count = end->operand_count;
  if (!KEEL_ARENA_ARRAY(&h->v.file.arena, h->out_shardings, h->out_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < end->operand_count; i++)
    KEEL_TRY(add_output(h, main, end, i));
  return KD_OK;
}

static keel_status lower_main(hlo *h, const bytecode_op *main) {
  const bytecode_block *block = &main->regions[0];
  const bytecode_op *end =
      block->op_count ? &block->ops[block->op_count - 1] : NULL;
  if (!end)
    return vhlo_fail(&h->v, main, KD_UNIMPLEMENTED,
                     " is not supported: it is declared, and has no body");
  if (!vhlo_is(end, "return"))
    return vhlo_fail(&h->v, main, KD_DATA_LOSS, " has no return");
  KEEL_TRY(lower_add_inputs(h, main));
  h->calls[h->call_count++] = main;
  KEEL_TRY(lower_add_outputs(h, main));
  if (end->operand_count) return KD_OK;
  /* a program of Keel has an output in any case */
  hlo_at(h);
  return keel_builder_output(
      h->at, "keel.nothing",
      keel_emit_constant(hlo_at(h), KD_BOOL, 0, NULL, "\0"));
}

/* JAX states either which output has an argument's memory, or that any may. */
static keel_status mark_donated(const hlo *h, const bytecode_op *main,
                                const keel_program *program) {
  static const char *const names[] = {"tf.aliasing_output", "jax.buffer_donor"};
  keel_function *function = program->main;
  for (uint32_t i = 0; i < function->input_count; i++)
    for (size_t k = 0; k < KEEL_COUNT_OF(names); k++) {
      bool donated = false;
      KEEL_TRY(vhlo_argument_has(&h->v, main, i, names[k], &donated));
      if (donated) function->input_ports[i].flags |= KEEL_PORT_DONATED;
    }
  return KD_OK;
}

/* The program's ports say how they are split. */
static keel_status mark_shardings(const hlo *h, const keel_program *program) {
  keel_function *function = program->main;
  keel_arena *arena = &((keel_program *)(uintptr_t)program)->arena;
  for (uint32_t out = 0; out < 2; out++) {
    const char *const *texts = out ? h->out_shardings : h->in_shardings;
    keel_port *ports = out ? function->output_ports : function->input_ports;
    uint32_t count = out ? h->out_count : h->in_count;
    for (uint32_t i = 0; i < count; i++) {
      if (!texts[i]) continue;
      ports[i].sharding = keel_arena_copy(arena, texts[i]);
      if (!ports[i].sharding) return KD_OUT_OF_MEMORY;
    }
  }
  return KD_OK;
}

keel_status hlo_program(hlo *h, const char *function,
                        keel_program **out_program) {
  const bytecode_op *main = NULL;
  keel_arena *arena = &h->v.file.arena;
  KEEL_TRY(find_main(h, function, &main));
  if (!KEEL_ARENA_ARRAY(arena, h->bound, h->v.file.value_count) ||
      !KEEL_ARENA_ARRAY(arena, h->calls, h->function_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < h->v.file.value_count; i++)
    h->bound[i].value = KEEL_ABSENT;
  h->member = KEEL_ABSENT;
  h->most =
      OPS_LEAST + OPS_PER_BYTE * (uint64_t)(h->v.file.end - h->v.file.begin);
  KEEL_TRY(keel_builder_create(h->context, h->v.file.path, &h->at));
  h->levels[0] = h->at;
  keel_status status = lower_main(h, main);
  hlo_at(h);
  if (status == KD_OK) status = keel_builder_finish(h->levels[0], out_program);
  keel_builder_destroy(h->levels[0]);
  if (status != KD_OK) return status;
  status = mark_donated(h, main, *out_program);
  if (status == KD_OK) status = mark_shardings(h, *out_program);
  if (status != KD_OK) {
    keel_program_release(*out_program);
    *out_program = NULL;
  }
  return status;
}
