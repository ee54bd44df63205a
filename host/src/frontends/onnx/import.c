/* import.c - a ModelProto becomes a program: its graphs, with their inputs, initial values and
 * outputs. */
#include "import.h"
#include "annotations.h"
#include "device/context.h"
#include "frontends/frontends.h"

#include "attribute.h"

#define NODES_MOST 4000000
/* Functions that call functions write themselves out to exponentially many nodes: a file
 * may come to so many, and to so many more for each byte that it has. */
#define NODES_FREE     10000
#define NODES_PER_BYTE 2

/* ---- types of inputs and outputs ------------------------------------------ */

/* dims and symbols have room for KD_MAX_RANK. */
static void read_port(const onnx_value_info *info, keel_port *port,
                      int64_t *dims, const char **symbols) {
  *port = (keel_port){.name = info->name ? info->name : "",
                      .rank = KEEL_RANK_UNKNOWN};
  const Onnx__TypeProto *type = info->type;
  if (!type) return;
  if (type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE &&
      type->optional_type && type->optional_type->elem_type) {
    port->flags |= KEEL_PORT_OPTIONAL;
    type = type->optional_type->elem_type;
  }
  /* a map is a sequence of its keys and its values (opsets/ml/maps.c) */
  if (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
      type->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE)
    port->flags |= KEEL_PORT_SEQUENCE;
  const Onnx__TypeProto__Tensor *tensor =
      type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
          ? type->tensor_type
          : NULL;
  if (!tensor) return;
  port->dtype = (kd_dtype)tensor->elem_type;
  if (!tensor->shape || tensor->shape->n_dim > KD_MAX_RANK) return;
  port->rank = (uint32_t)tensor->shape->n_dim;
  port->dims = dims;
  for (uint32_t i = 0; i < port->rank; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
    bool fixed = dim->value_case ==
                     ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                 dim->dim_value >= 0;
    bool named =
        dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    dims[i] = fixed ? dim->dim_value : -1;
    symbols[i] = named ? dim->dim_param : NULL;
  }
  port->symbols = symbols;
}

/* ---- graphs --------------------------------------------------------------- */

static bool is_replaced(const importer *all, const char *name) {
  for (uint32_t i = 0; i < all->replaced_count; i++)
    if (!strcmp(all->replaced[i], name)) return true;
  return false;
}

/* The inputs of a graph whose initial values count for nothing: its caller gives a value, as
 * the op of a nested graph always does. */
static keel_status index_given(const scope *scope, const onnx_graph *graph,
                               onnx_index *given) {
  for (size_t i = 0; i < graph->n_input; i++) {
    const char *name = graph->input[i]->name;
    if (name && (scope->around || is_replaced(scope->all, name)))
      KEEL_TRY(onnx_index_add(given, "", name, "", (uint32_t)i));
  }
  return KD_OK;
}

/* Adds an initializer. Takes over the reference to the tensor. */
static keel_status add_initializer(scope *scope, const char *name,
                                   keel_tensor *tensor) {
  uint32_t value = keel_function_constant(scope->function, name, tensor);
  keel_tensor_release(tensor);
  return value == KEEL_ABSENT ? KD_OUT_OF_MEMORY
                              : onnx_scope_add(scope, name, value);
}

static keel_status import_initializers(scope *scope, const onnx_graph *graph,
                                       const onnx_index *given) {
  importer *all = scope->all;
  keel_tensor *tensor = NULL;
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const onnx_tensor *proto = graph->initializer[i];
    if (!proto->name || !*proto->name)
      return onnx_bad(all, KD_DATA_LOSS, "an initializer has no name");
    if (onnx_index_find(given, "", proto->name, "") != KEEL_ABSENT) continue;
    KEEL_TRY(onnx_read_tensor(scope, proto, all->program->mapping, &tensor));
    KEEL_TRY(add_initializer(scope, proto->name, tensor));
  }
  for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
    const Onnx__SparseTensorProto *proto = graph->sparse_initializer[i];
    const char *name = proto->values ? proto->values->name : NULL;
    if (!name || !*name)
      return onnx_bad(all, KD_DATA_LOSS, "a sparse initializer has no name");
    if (onnx_index_find(given, "", name, "") != KEEL_ABSENT) continue;
    KEEL_TRY(keel_onnx_sparse(all->context, all->path, proto, &tensor));
    KEEL_TRY(add_initializer(scope, name, tensor));
  }
  return KD_OK;
}

/* Notes an input that has an initial value, and that a caller may replace. */
static keel_status note_initializer(scope *scope, const keel_port *port) {
  keel_program *program = scope->all->program;
  /* before version 4 of the IR each initializer had to be an input, too */
  if (scope->around || scope->all->model->ir_version < 4) return KD_OK;
  if (!KEEL_ARENA_ROOM(&program->arena, program->initializers,
                       program->initializer_count,
                       program->initializer_capacity))
    return KD_OUT_OF_MEMORY;
  keel_port *to = &program->initializers[program->initializer_count++];
  return keel_port_copy(&program->arena, port, port->name, to);
}

static keel_status import_inputs(scope *scope, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->n_input; i++) {
    const onnx_value_info *info = graph->input[i];
    keel_port port;
    int64_t dims[KD_MAX_RANK];
    const char *symbols[KD_MAX_RANK];
    uint32_t value = KEEL_ABSENT;
    if (!info->name || !*info->name)
      return onnx_bad(scope->all, KD_DATA_LOSS, "an input has no name");
    read_port(info, &port, dims, symbols);
    value = onnx_scope_find(scope, info->name);
    if (value != KEEL_ABSENT && scope->function->values[value].constant) {
      KEEL_TRY(note_initializer(scope, &port));
      continue;
    }
    KEEL_TRY(onnx_scope_new(scope, info->name, &value));
    scope->function->values[value].type = keel_port_type(&port);
    KEEL_TRY(keel_function_input(scope->function, value, &port));
  }
  return KD_OK;
}

static keel_status import_outputs(scope *scope, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->n_output; i++) {
    const onnx_value_info *info = graph->output[i];
    keel_port port;
    int64_t dims[KD_MAX_RANK];
    const char *symbols[KD_MAX_RANK];
    uint32_t value = KEEL_ABSENT;
    keel_status status =
        onnx_scope_resolve(scope, info->name ? info->name : "", &value);
    if (status == KD_NOT_FOUND)
      return onnx_bad(scope->all, KD_DATA_LOSS,
                      "output \"%s\" is made by no node",
                      info->name ? info->name : "");
    KEEL_TRY(status);
    read_port(info, &port, dims, symbols);
    KEEL_TRY(keel_function_output(scope->function, value, &port));
  }
  return KD_OK;
}

/* A caller would take the output for what the model says that it is. */
static keel_status check_outputs(const scope *scope) {
  const keel_function *function = scope->function;
  for (uint32_t i = 0; i < function->output_count; i++) {
    const keel_type *type = function->values[function->outputs[i]].type;
    const keel_port *port = &function->output_ports[i];
    if (type && port->dtype && keel_port_is_tensor(port) &&
        type->dtype != port->dtype)
      return onnx_bad(scope->all, KD_DATA_LOSS,
                      "output \"%s\" is declared as %s, and is %s", port->name,
                      keel_dtype_name(port->dtype),
                      keel_dtype_name(type->dtype));
  }
  return KD_OK;
}

static keel_status import_constants(scope *scope, const onnx_graph *graph) {
  onnx_index given = {0};
  keel_status status = index_given(scope, graph, &given);
  if (status == KD_OK) status = import_initializers(scope, graph, &given);
  onnx_index_free(&given);
  return status;
}

keel_status onnx_import_graph(const onnx_graph *graph, scope *inner) {
  importer *all = inner->all;
  KEEL_TRY(onnx_enter(all, graph->name));
  KEEL_TRY(keel_function_create(all->context, &all->program->arena,
                                &all->program->functions, graph->name,
                                &inner->function));
  KEEL_TRY(import_constants(inner, graph));
  KEEL_TRY(import_inputs(inner, graph));
  KEEL_TRY(onnx_import_nodes(inner, graph->node, graph->n_node));
  KEEL_TRY(import_outputs(inner, graph));
  KEEL_TRY(keel_function_sort(inner->function));
  keel_status status = keel_function_types(inner->function);
  if (status == KD_OK) status = check_outputs(inner);
  all->depth--;
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s", all->path);
}

static keel_status index_functions(importer *all) {
  const onnx_model *model = all->model;
  all->inner = calloc(model->n_functions + 1, sizeof *all->inner);
  if (!all->inner)
    return keel_no_memory(model->n_functions * sizeof(onnx_index));
  for (size_t i = 0; i < model->n_functions; i++) {
    const onnx_function *function = model->functions[i];
    const char *domain = function->domain ? function->domain : "";
    if (!strcmp(domain, "ai.onnx")) domain = "";
    const char *overload = function->overload ? function->overload : "";
    if (!function->name) continue;
    if (onnx_index_find(&all->functions, domain, function->name, overload) !=
        KEEL_ABSENT)
      return onnx_bad(all, KD_DATA_LOSS, "has two functions %s::%s%s%s", domain,
                      function->name, *overload ? ", overload " : "", overload);
    KEEL_TRY(onnx_index_add(&all->functions, domain, function->name, overload,
                            (uint32_t)i));
  }
  return KD_OK;
}

static uint32_t find_top(const void *top, const char *name) {
  return onnx_scope_find(top, name);
}

static keel_status import_annotations(importer *all, const scope *top) {
  const onnx_annotated from = {all->model, top->function, find_top, top};
  return keel_onnx_annotations(&from, all->program);
}

static keel_status import_model(importer *all) {
  scope top = {.all = all, .body = KEEL_ABSENT};
  int64_t version = all->model->ir_version;
  if (version > KEEL_ONNX_IR)
    keel_log_line(&all->context->log, KD_LOG_WARNING,
                  "%s is of ONNX's IR version %lld, and this Keel knows version"
                  " %d: it may read what is newer wrongly",
                  all->path, (long long)version, KEEL_ONNX_IR);
  if (!all->model->graph) return onnx_bad(all, KD_DATA_LOSS, "has no graph");
  if (!all->model->n_opset_import && all->model->ir_version >= 3)
    return onnx_bad(all, KD_DATA_LOSS, "does not say which opset it uses");
  KEEL_TRY(index_functions(all));
  keel_status status = onnx_import_graph(all->model->graph, &top);
  if (status == KD_OK) status = import_annotations(all, &top);
  all->program->main = top.function;
  onnx_scope_free(&top);
  return status;
}

static void importer_free(importer *all) {
  for (size_t i = 0; all->inner && i < all->model->n_functions; i++)
    onnx_index_free(&all->inner[i]);
  free(all->inner);
  onnx_index_free(&all->functions);
  onnx_index_free(&all->opsets);
  onnx_shared_free(&all->tensors);
}

static keel_status import_all(importer *all) {
  KEEL_TRY(import_model(all));
  return keel_onnx_settle(all->program);
}

static keel_status override(const keel_program *program,
                            const char *const *names, uint32_t count,
                            keel_program **out_program);

/* A program of a mapped file. replaced: the inputs that keep no initial value. */
static keel_status import_read(keel_context *context, const char *path,
                               keel_mapping *mapping,
                               const char *const *replaced,
                               uint32_t replaced_count,
                               keel_program **out_program) {
  ProtobufCMessage *message = NULL;
  keel_program *program = NULL;
  uint64_t size = mapping->file.size;
  keel_status status = keel_onnx_unpack(path, &onnx__model_proto__descriptor,
                                        mapping->file.data, size, &message);
  if (status != KD_OK) return status;
  status = keel_program_create(context, &program);
  if (status == KD_OK) {
    keel_refs_take(&mapping->refs);
    program->mapping = mapping;
    program->override = override;
    program->path = keel_arena_copy(&program->arena, path);
    importer all = {.context = context,
                    .program = program,
                    .path = path,
                    .model = (const onnx_model *)message,
                    .replaced = replaced,
                    .replaced_count = replaced_count,
                    .most = NODES_FREE + NODES_PER_BYTE * size};
    if (all.most > NODES_MOST) all.most = NODES_MOST;
    status = program->path ? import_all(&all) : KD_OUT_OF_MEMORY;
    importer_free(&all);
  }
  keel_onnx_free(message);
  if (status != KD_OK) {
    keel_program_release(program);
    return status;
  }
  *out_program = program;
  return KD_OK;
}

static keel_status override(const keel_program *program,
                            const char *const *names, uint32_t count,
                            keel_program **out_program) {
  return import_read(program->context, program->path, program->mapping, names,
                     count, out_program);
}

static keel_status import_load(keel_context *context, const char *path,
                               keel_file *file, keel_program **out_program) {
  keel_mapping *mapping = NULL;
  KEEL_TRY(keel_mapping_create(file, &mapping));
  keel_status status =
      import_read(context, path, mapping, NULL, 0, out_program);
  keel_mapping_release(mapping);
  return status;
}

/* A protobuf has no beginning of its own. */
static bool is_any(const void *data, uint64_t size) {
  (void)data;
  (void)size;
  return true;
}

const keel_frontend keel_frontend_onnx = {is_any, import_load};
