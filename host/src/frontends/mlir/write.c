/* write.c - writes a program as MLIR. */
#include <locale.h>
#include <math.h>

#include "base/float.h"
#include "defs/small.h"
#include "device/device.h"
#include "memory/access.h"
#include "mlir.h"
#include "ops/vendor.h"
#include "values/strings.h"

/* Elements that a constant shows where it stands; larger ones lie at the end. */
#define SHOWN 16
/* The alignment of a resource that MLIR accepts. */
#define ALIGNMENT 64u

typedef struct writer {
  FILE *file;
  uint32_t flags;
  uint32_t next;       /* %N, counted through all functions */
  unsigned depth;      /* of regions, for the margin */
  keel_tensor **large; /* constants at the end, retained, as they are met */
  uint32_t large_count, large_capacity;
  bool *met; /* by schema: an op of it is there */
} writer;

static void margin(const writer *all) {
  fprintf(all->file, "%*s", (int)(2 * all->depth), "");
}

/* ---- names and types -------------------------------------------------------------- */

static void write_piece(const writer *all, keel_piece piece) {
  fputc('"', all->file);
  for (uint64_t i = 0; i < piece.size; i++) {
    unsigned char c = (unsigned char)piece.at[i];
    if (c < 32 || c > 126 || c == '"' || c == '\\')
      fprintf(all->file, "\\%02X", c);
    else
      fputc(c, all->file);
  }
  fputc('"', all->file);
}

static void write_string(const writer *all, const char *text) {
  write_piece(all, (keel_piece){text, text ? strlen(text) : 0});
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void write_key(const writer *all, const char *name) {
  bool plain = is_letter(*name);
  for (const char *at = name; *at && plain; at++)
    plain = is_letter(*at) || (*at >= '0' && *at <= '9') || *at == '$' ||
            *at == '.';
  if (plain)
    fputs(name, all->file);
  else
    write_string(all, name);
}

/* An op as its mnemonic, without quotes. */
static void write_op(const writer *all, const keel_schema *schema) {
  bool onnx = !*schema->domain || !strcmp(schema->domain, "ai.onnx");
  fprintf(all->file, "%s.%s", onnx ? "onnx" : schema->domain, schema->name);
}

static void write_tensor_type(const writer *all, kd_dtype dtype, uint32_t rank,
                              const int64_t *dims) {
  const char *name = keel_mlir_dtype_name(dtype);
  fputs("tensor<", all->file);
  if (rank == KEEL_RANK_UNKNOWN) fputs("*x", all->file);
  for (uint32_t i = 0; rank != KEEL_RANK_UNKNOWN && i < rank; i++)
    if (dims[i] < 0)
      fputs("?x", all->file);
    else
      fprintf(all->file, "%lldx", (long long)dims[i]);
  fprintf(all->file, "%s>", name ? name : "!keel.value");
}

static void write_type(const writer *all, const keel_type *type) {
  if (type)
    write_tensor_type(all, type->dtype, type->rank, type->dims);
  else
    fputs("!keel.value", all->file);
}

static void write_port_type(const writer *all, const keel_port *port) {
  uint32_t both = KEEL_PORT_OPTIONAL | KEEL_PORT_SEQUENCE;
  if ((port->flags & both) == both)
    fputs("!keel.optional_sequence", all->file);
  else if (port->flags & KEEL_PORT_RESOURCE)
    fputs("!keel.resource", all->file);
  else if (port->flags & both)
    fputs(
        port->flags & KEEL_PORT_OPTIONAL ? "!keel.optional" : "!keel.sequence",
        all->file);
  else if (port->dtype == KD_NONE)
    fputs("!keel.value", all->file);
  else
    write_tensor_type(all, port->dtype, port->rank, port->dims);
}

/* ---- numbers and data ---------------------------------------------------------------- */

/* As few digits as give the same bits again; infinities and NaN as bits. */
static void write_float(const writer *all, kd_dtype dtype,
                        const void *element) {
  double number = 0;
  uint64_t bits = 0, same = 0;
  char text[64];
  if (!keel_float_decode(dtype, element, &number, &bits)) return;
  if (!isfinite(number)) {
    fprintf(all->file, "0x%0*llX", (int)(2 * keel_dtype_size(dtype)),
            (unsigned long long)bits);
    return;
  }
  for (int digits = 1; digits <= 16; digits++) {
    snprintf(text, sizeof text, "%.*e", digits, number);
    same = 0;
    if (keel_float_encode(dtype, strtod(text, NULL), &same) && same == bits)
      break;
  }
  fputs(text, all->file);
}

static void write_hex(const writer *all, const void *data, uint64_t size) {
  static const char digits[] = "0123456789ABCDEF";
  const uint8_t *at = data;
  char line[4096];
  while (size) {
    uint64_t now = size < sizeof line / 2 ? size : sizeof line / 2;
    for (uint64_t i = 0; i < now; i++) {
      line[2 * i] = digits[at[i] >> 4];
      line[2 * i + 1] = digits[at[i] & 15];
    }
    fwrite(line, 1, (size_t)(2 * now), all->file);
    at += now;
    size -= now;
  }
}

static void write_element(const writer *all, kd_dtype dtype, const void *data,
                          int64_t i) {
  uint32_t size = keel_dtype_size(dtype), unused = 64 - 8 * size;
  const char *at = (const char *)data + i * (int64_t)size;
  if (dtype == KD_BOOL) {
    fputs(*at ? "true" : "false", all->file);
  } else if (KD_TYPES(dtype) & KD_TYPES_FLOAT) {
    write_float(all, dtype, at);
  } else {
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    if (KD_TYPES(dtype) & KD_TYPES_SIGNED)
      fprintf(all->file, "%lld",
              (long long)((int64_t)(bits << unused) >> unused));
    else
      fprintf(all->file, "%llu", (unsigned long long)bits);
  }
}

/* Nested as the dimensions are. */
static void write_list(const writer *all, const keel_type *type,
                       const void *data, const keel_strings *strings) {
  int64_t steps[KD_MAX_RANK + 1];
  steps[type->rank] = 1;
  for (uint32_t d = type->rank; d > 0; d--)
    steps[d - 1] = steps[d] * type->dims[d - 1];
  for (int64_t i = 0; i < type->elements; i++) {
    if (i) fputs(", ", all->file);
    for (uint32_t d = 0; d < type->rank; d++)
      if (i % steps[d] == 0) fputc('[', all->file);
    if (strings)
      write_piece(all, keel_strings_get(strings, i));
    else
      write_element(all, type->dtype, data, i);
    for (uint32_t d = 0; d < type->rank; d++)
      if ((i + 1) % steps[d] == 0) fputc(']', all->file);
  }
}

static keel_status keep_large(writer *all, keel_tensor *tensor,
                              uint32_t *out_number) {
  for (uint32_t i = 0; i < all->large_count; i++)
    if (all->large[i]->data == tensor->data &&
        all->large[i]->type == tensor->type) {
      *out_number = i;
      return KD_OK;
    }
  if (!KEEL_ROOM(all->large, all->large_count, all->large_capacity))
    return KD_OUT_OF_MEMORY;
  *out_number = all->large_count;
  all->large[all->large_count++] = keel_tensor_retain(tensor);
  return KD_OK;
}

static keel_status write_here(writer *all, keel_tensor *tensor) {
  const keel_type *type = tensor->type;
  uint32_t number = 0;
  kd_dtype dtype = type->dtype;
  bool as_bytes = dtype == KD_C64 || dtype == KD_C128 || onnx_is_small(dtype);
  if (!kd_dtype_bits(dtype))
    return keel_fail(KD_UNIMPLEMENTED,
                     "a constant of type %s has no text; write the program in"
                     " its binary form",
                     keel_dtype_name(dtype));
  if (!type->elements) {
    fputs("dense<>", all->file);
  } else if (type->elements > SHOWN) {
    if (all->flags & KEEL_MLIR_SHORT) {
      fputs("dense_resource<__elided__>", all->file);
    } else {
      KEEL_TRY(keep_large(all, tensor, &number));
      fprintf(all->file, "dense_resource<keel_%u>", (unsigned)number);
    }
  } else if (as_bytes) {
    fputs("dense<\"0x", all->file);
    write_hex(all, tensor->data, type->bytes);
    fputs("\">", all->file);
  } else {
    fputs("dense<", all->file);
    write_list(all, type, tensor->data, NULL);
    fputc('>', all->file);
  }
  fputs(" : ", all->file);
  write_type(all, type);
  return KD_OK;
}

/* A constant's value: dense data, a list of it, or `unit` for an empty optional. */
static keel_status write_value(writer *all, keel_tensor *tensor) {
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (tensor->kind == KEEL_OPTIONAL_EMPTY) {
    fputs("unit", all->file);
    return KD_OK;
  }
  if (tensor->kind == KEEL_SEQUENCE) {
    fputc('[', all->file);
    for (uint32_t i = 0; i < tensor->item_count; i++) {
      if (i) fputs(", ", all->file);
      KEEL_TRY(write_value(all, tensor->items[i]));
    }
    fputc(']', all->file);
    return KD_OK;
  }
  if (keel_is_strings(tensor)) {
    fputs("dense<", all->file);
    if (tensor->type->elements)
      write_list(all, tensor->type, NULL, tensor->strings);
    fputs("> : ", all->file);
    write_type(all, tensor->type);
    return KD_OK;
  }
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(tensor, &here));
  keel_status status = write_here(all, here);
  keel_tensor_release(here);
  return status;
}

/* ---- attributes ---------------------------------------------------------------------- */

static keel_status write_attr(writer *all, const keel_attr *attr) {
  switch (attr->kind) {
    case KD_ATTR_INT:
      fprintf(all->file, "%lld : i64", (long long)attr->i);
      return KD_OK;
    case KD_ATTR_FLOAT:
      write_float(all, KD_F32, &attr->f);
      fputs(" : f32", all->file);
      return KD_OK;
    case KD_ATTR_STRING:
      write_string(all, attr->s);
      return KD_OK;
    case KD_ATTR_TENSOR:
      return write_value(all, attr->tensor);
    case KD_ATTR_INTS:
      fputs("array<i64", all->file);
      for (uint32_t i = 0; i < attr->count; i++)
        fprintf(all->file, "%s%lld", i ? ", " : ": ", (long long)attr->ints[i]);
      fputc('>', all->file);
      return KD_OK;
    case KD_ATTR_FLOATS:
      fputs("array<f32", all->file);
      for (uint32_t i = 0; i < attr->count; i++) {
        fputs(i ? ", " : ": ", all->file);
        write_float(all, KD_F32, &attr->floats[i]);
      }
      fputc('>', all->file);
      return KD_OK;
    default: /* strings */
      fputc('[', all->file);
      for (uint32_t i = 0; i < attr->count; i++) {
        if (i) fputs(", ", all->file);
        write_string(all, attr->strings[i]);
      }
      fputc(']', all->file);
      return KD_OK;
  }
}

/* Names of open dimensions, where any has one. */
static void write_symbols(const writer *all, const char *what,
                          const keel_port *ports, uint32_t count) {
  bool any = false;
  for (uint32_t i = 0; i < count; i++)
    any |= ports[i].symbols != NULL;
  if (!any) return;
  fprintf(all->file, ", %.*s_symbols = [", (int)strlen(what) - 1, what);
  for (uint32_t i = 0; i < count; i++) {
    fputs(i ? ", [" : "[", all->file);
    for (uint32_t k = 0; ports[i].symbols && k < ports[i].rank; k++) {
      if (k) fputs(", ", all->file);
      write_string(all, ports[i].symbols[k] ? ports[i].symbols[k] : "");
    }
    fputc(']', all->file);
  }
  fputc(']', all->file);
}

static void write_ports(const writer *all, const char *what,
                        const keel_port *ports, uint32_t count) {
  fprintf(all->file, "%s = [", what);
  for (uint32_t i = 0; i < count; i++) {
    if (i) fputs(", ", all->file);
    write_string(all, ports[i].name);
  }
  fprintf(all->file, "], %.*s_types = [", (int)strlen(what) - 1, what);
  for (uint32_t i = 0; i < count; i++) {
    if (i) fputs(", ", all->file);
    write_port_type(all, &ports[i]);
  }
  fputc(']', all->file);
  write_symbols(all, what, ports, count);
}

/* Which inputs callers should donate, where there are any. */
static void write_donated(const writer *all, const keel_function *function) {
  bool any = false;
  for (uint32_t i = 0; i < function->input_count; i++) {
    if (!(function->input_ports[i].flags & KEEL_PORT_DONATED)) continue;
    fprintf(all->file, "%s%u",
            any ? ", " : ", donated = array<i64: ", (unsigned)i);
    any = true;
  }
  if (any) fputc('>', all->file);
}

/* The facts of a function besides its body. */
static void write_facts(const writer *all, const keel_function *function) {
  fputs("name = ", all->file);
  write_string(all, function->name);
  fputs(", ", all->file);
  write_ports(all, "inputs", function->input_ports, function->input_count);
  write_donated(all, function);
  fputs(", ", all->file);
  write_ports(all, "outputs", function->output_ports, function->output_count);
}

static bool has_graphs(const keel_node *node) {
  for (uint32_t i = 0; i < node->op->attr_count; i++)
    if (node->op->attrs[i].graph) return true;
  return false;
}

static void write_graphs(const writer *all, const keel_node *node) {
  fputs("keel.graphs = [", all->file);
  const char *comma = "";
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const keel_function *graph = node->op->attrs[i].graph;
    if (!graph) continue;
    fprintf(all->file, "%s{attribute = ", comma);
    write_string(all, node->op->attrs[i].value.name);
    fprintf(all->file, ", captures = %u : i64, ",
            (unsigned)graph->capture_count);
    write_facts(all, graph);
    fputc('}', all->file);
    comma = ", ";
  }
  fputc(']', all->file);
}

/* The attribute whose name comes next behind `name` ("" first), as mlir-opt orders
 * them; NULL: none. */
static const keel_attr *next_attr(const keel_opdef *op, const char *name) {
  const keel_attr *next = NULL;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const keel_attr *at = &op->attrs[i].value;
    if (at->kind != KD_ATTR_GRAPH && strcmp(at->name, name) > 0 &&
        (!next || strcmp(at->name, next->name) < 0))
      next = at;
  }
  return next;
}

static keel_status write_attrs(writer *all, const keel_node *node) {
  const char *comma = " {";
  for (const keel_attr *at = next_attr(node->op, ""); at;
       at = next_attr(node->op, at->name)) {
    fputs(comma, all->file);
    write_key(all, at->name);
    fputs(" = ", all->file);
    KEEL_TRY(write_attr(all, at));
    comma = ", ";
  }
  if (*node->name) {
    fprintf(all->file, "%skeel.name = ", comma);
    write_string(all, node->name);
    comma = ", ";
  }
  if (node->device) {
    fprintf(all->file, "%skeel.device = ", comma);
    write_string(all, node->device->name);
    comma = ", ";
  }
  if (node->output_layout) {
    fprintf(all->file, "%skeel.layout = %u", comma,
            (unsigned)node->output_layout);
    comma = ", ";
  }
  if (has_graphs(node)) {
    fputs(comma, all->file);
    write_graphs(all, node);
    comma = ", ";
  }
  if (comma[0] == ',') fputc('}', all->file);
  return KD_OK;
}

/* ---- nodes and functions ----------------------------------------------------------------- */

/* Numbers of a function's values. */
typedef struct numbers {
  const keel_function *function;
  uint32_t *of; /* by value */
  uint32_t none;
} numbers;

static keel_status write_function(writer *all, const keel_function *function);

static void write_use(const writer *all, const numbers *names, uint32_t value) {
  fprintf(all->file, "%%%u",
          (unsigned)(value == KEEL_ABSENT ? names->none : names->of[value]));
}

static void write_value_type(const writer *all, const numbers *names,
                             uint32_t value) {
  if (value == KEEL_ABSENT)
    fputs("none", all->file);
  else
    write_type(all, names->function->values[value].type);
}

static void write_types(const writer *all, const numbers *names,
                        const uint32_t *values, uint32_t count) {
  fputc('(', all->file);
  for (uint32_t i = 0; i < count; i++) {
    if (i) fputs(", ", all->file);
    write_value_type(all, names, values[i]);
  }
  fputc(')', all->file);
}

static void write_uses(const writer *all, const numbers *names,
                       const uint32_t *values, uint32_t count) {
  fputc('(', all->file);
  for (uint32_t i = 0; i < count; i++) {
    if (i) fputs(", ", all->file);
    write_use(all, names, values[i]);
  }
  fputc(')', all->file);
}

static keel_status write_regions(writer *all, const keel_node *node) {
  const char *comma = " (";
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    if (!node->op->attrs[i].graph) continue;
    fprintf(all->file, "%s{\n", comma);
    KEEL_TRY(write_function(all, node->op->attrs[i].graph));
    margin(all);
    fputc('}', all->file);
    comma = ", ";
  }
  fputc(')', all->file);
  return KD_OK;
}

static keel_status write_node(writer *all, numbers *names,
                              const keel_node *node) {
  margin(all);
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t number = all->next++;
    if (node->outputs[i] != KEEL_ABSENT) names->of[node->outputs[i]] = number;
    fprintf(all->file, "%s%%%u", i ? ", " : "", (unsigned)number);
  }
  fputs(" = \"", all->file);
  write_op(all, node->op->schema);
  fputc('"', all->file);
  write_uses(all, names, node->inputs, node->input_count);
  if (has_graphs(node)) KEEL_TRY(write_regions(all, node));
  KEEL_TRY(write_attrs(all, node));
  fputs(" : ", all->file);
  write_types(all, names, node->inputs, node->input_count);
  fputs(" -> ", all->file);
  write_types(all, names, node->outputs, node->output_count);
  fputc('\n', all->file);
  return KD_OK;
}

/* Constants that have a reader, before all their readers. */
static keel_status write_constants(writer *all, numbers *names) {
  const keel_function *function = names->function;
  bool *read = calloc((size_t)function->value_count + 1, sizeof *read);
  bool absent = false;
  if (!read) return keel_no_memory(function->value_count);
  for (uint32_t i = 0; i < function->node_count; i++)
    for (uint32_t k = 0;
         !function->nodes[i].dead && k < function->nodes[i].input_count; k++)
      if (function->nodes[i].inputs[k] == KEEL_ABSENT)
        absent = true;
      else
        read[function->nodes[i].inputs[k]] = true;
  for (uint32_t i = 0; i < function->output_count; i++)
    read[function->outputs[i]] = true;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < function->value_count && status == KD_OK; i++) {
    if (!read[i] || !function->values[i].constant) continue;
    margin(all);
    names->of[i] = all->next++;
    fprintf(all->file,
            "%%%u = \"keel.constant\"() {value = ", (unsigned)names->of[i]);
    status = write_value(all, function->values[i].constant);
    fputs("} : () -> ", all->file);
    write_type(all, function->values[i].type);
    fputc('\n', all->file);
  }
  free(read);
  if (absent) {
    margin(all);
    names->none = all->next++;
    fprintf(all->file, "%%%u = \"keel.none\"() : () -> none\n",
            (unsigned)names->none);
  }
  return status;
}

static keel_status write_body(writer *all, numbers *names) {
  const keel_function *function = names->function;
  margin(all);
  fputs("^bb0", all->file);
  if (function->input_count) fputc('(', all->file);
  for (uint32_t i = 0; i < function->input_count; i++) {
    names->of[function->inputs[i]] = all->next++;
    fprintf(all->file, "%s%%%u: ", i ? ", " : "",
            (unsigned)names->of[function->inputs[i]]);
    write_value_type(all, names, function->inputs[i]);
  }
  fputs(function->input_count ? "):\n" : ":\n", all->file);
  all->depth++;
  KEEL_TRY(write_constants(all, names));
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead)
      KEEL_TRY(write_node(all, names, &function->nodes[i]));
  margin(all);
  fputs("\"keel.return\"", all->file);
  write_uses(all, names, function->outputs, function->output_count);
  fputs(" : ", all->file);
  write_types(all, names, function->outputs, function->output_count);
  fputs(" -> ()\n", all->file);
  all->depth--;
  return KD_OK;
}

static keel_status write_function(writer *all, const keel_function *function) {
  numbers names = {.function = function};
  names.of = calloc((size_t)function->value_count + 1, sizeof *names.of);
  if (!names.of) return keel_no_memory(function->value_count);
  keel_status status = write_body(all, &names);
  free(names.of);
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void note_ops(const keel_function *function, bool *met) {
  const keel_context *context = function->context;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    for (uint32_t k = 0; keel_op_at(context, k); k++)
      if (keel_op_at(context, k) == node->op->schema) met[k] = true;
    for (uint32_t k = 0; k < node->op->attr_count; k++)
      if (node->op->attrs[k].graph) note_ops(node->op->attrs[k].graph, met);
  }
}

/* The opset versions that the ops' meanings are since. */
static void write_versions(const writer *all, const keel_context *context) {
  const char *comma = "";
  const keel_schema *schema = NULL;
  fputs("ops = {", all->file);
  for (uint32_t i = 0; (schema = keel_op_at(context, i)); i++) {
    if (!all->met[i]) continue;
    fputs(comma, all->file);
    fputc('"', all->file);
    write_op(all, schema);
    fprintf(all->file, "\" = %u : i64", (unsigned)schema->since);
    comma = ", ";
  }
  fputc('}', all->file);
}

static void write_resources(const writer *all) {
  const uint32_t alignment = ALIGNMENT;
  if (!all->large_count) return;
  fputs("\n{-#\n  dialect_resources: {\n    builtin: {\n", all->file);
  for (uint32_t i = 0; i < all->large_count; i++) {
    fprintf(all->file, "      keel_%u: \"0x", (unsigned)i);
    write_hex(all, &alignment, sizeof alignment);
    write_hex(all, all->large[i]->data, all->large[i]->type->bytes);
    fputs(i + 1 < all->large_count ? "\",\n" : "\"\n", all->file);
  }
  fputs("    }\n  }\n#-}\n", all->file);
}

static keel_status write_all(writer *all, const keel_function *main,
                             const keel_device *device) {
  fprintf(all->file,
          "// A program of Keel %s, in MLIR's generic syntax.\n"
          "\"builtin.module\"() ({\n"
          "  \"keel.program\"() ({\n",
          KEEL_VERSION);
  all->depth = 1;
  KEEL_TRY(write_function(all, main));
  fprintf(all->file, "  }) {version = %d : i64, ", KEEL_MLIR_VERSION);
  if (device) {
    fputs("device = ", all->file);
    write_string(all, device->name);
    fputs(", ", all->file);
  }
  write_facts(all, main);
  fputs(", ", all->file);
  write_versions(all, main->context);
  fputs("} : () -> ()\n}) : () -> ()\n", all->file);
  write_resources(all);
  return KD_OK;
}

keel_status keel_mlir_write(const keel_function *main,
                            const keel_device *device, uint32_t flags,
                            FILE *file) {
  uint32_t ops = 0;
  while (keel_op_at(main->context, ops))
    ops++;
  writer all = {.file = file, .flags = flags};
  all.met = calloc((size_t)ops + 1, sizeof *all.met);
  if (!all.met) return keel_no_memory(ops);
  note_ops(main, all.met);
  /* numbers have a point, whatever the application's locale */
  locale_t plain = newlocale(LC_ALL_MASK, "C", 0);
  locale_t before = plain ? uselocale(plain) : 0;
  keel_status status = write_all(&all, main, device);
  if (plain) {
    uselocale(before);
    freelocale(plain);
  }
  for (uint32_t i = 0; i < all.large_count; i++)
    keel_tensor_release(all.large[i]);
  free(all.large);
  free(all.met);
  return status;
}
