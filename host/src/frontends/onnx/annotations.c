/* annotations.c - the configurations of a model (ONNX IR 11), and what its nodes say of them.
 * The file chooses all lengths: each list is walked once. */
#include "annotations.h"

#include "index.h"

#define CONFIGURATIONS_MOST 4096

typedef struct reader {
  const onnx_annotated *from;
  keel_program *program;
  keel_annotations *to;
  onnx_index names; /* of configurations */
  /* the node at hand: its name for messages, and the first value that it makes */
  const char *name;
  uint32_t made;
} reader;

/* ---- what is wrong ------------------------------------------------------------------ */

/* The first fault stands. */
static keel_status annotations_note(reader *r, const char **fault,
                                    const char *format, ...) KD_PRINTF(3, 4);

static keel_status annotations_note(reader *r, const char **fault,
                                    const char *format, ...) {
  char text[600];
  va_list args;
  if (*fault) return KD_OK;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  *fault = keel_arena_copy(&r->program->arena, text);
  return *fault ? KD_OK : KD_OUT_OF_MEMORY;
}

/* A node without a name is named by its first output. */
static keel_status begin_node(reader *r, const onnx_node *node) {
  char name[101];
  size_t first = 0;
  while (first < node->n_output && !*node->output[first])
    first++;
  const char *made = first < node->n_output ? node->output[first] : "";
  bool named = node->name && *node->name;
  snprintf(name, sizeof name, "%s", named ? node->name : made);
  r->made = r->from->find(r->from->names, made);
  r->name = keel_arena_copy(&r->program->arena, name);
  return r->name ? KD_OK : KD_OUT_OF_MEMORY;
}

/* ---- of a node ---------------------------------------------------------------------- */

/* On all devices in their order; an empty list means that, too. */
static bool on_all(const Onnx__ShardingSpecProto *spec, int64_t devices) {
  if (spec->n_index_to_device_group_map) return false;
  if (!spec->n_device) return true;
  if (devices < 0 || spec->n_device != (uint64_t)devices) return false;
  for (size_t i = 0; i < spec->n_device; i++)
    if (spec->device[i] != (int64_t)i) return false;
  return true;
}

/* The axis that is split. *count: the number of split axes. An axis of one shard is not split. */
static keel_status find_axis(reader *r, keel_configuration *at,
                             const Onnx__ShardingSpecProto *spec,
                             const Onnx__ShardedDimProto **out_axis,
                             uint32_t *count) {
  for (size_t i = 0; i < spec->n_sharded_dim; i++) {
    const Onnx__ShardedDimProto *dim = spec->sharded_dim[i];
    bool split = false;
    for (size_t k = 0; k < dim->n_simple_sharding; k++) {
      int64_t shards = dim->simple_sharding[k]->num_shards;
      split |= shards != 1;
      if (shards < 1)
        return annotations_note(
            r, &at->fault,
            "node \"%s\" splits \"%.100s\" in %lld parts along axis"
            " %lld",
            r->name, spec->tensor_name, (long long)shards,
            (long long)dim->axis);
    }
    if (!split) continue;
    *out_axis = dim;
    ++*count;
  }
  return KD_OK;
}

static keel_status add_sharding(reader *r, keel_configuration *at,
                                const Onnx__ShardingSpecProto *spec) {
  const char *name = spec->tensor_name ? spec->tensor_name : "";
  const Onnx__ShardedDimProto *dim = NULL;
  uint32_t count = 0, value = r->from->find(r->from->names, name);
  if (value == KEEL_ABSENT)
    return annotations_note(
        r, &at->fault,
        "node \"%s\" splits \"%.100s\", which is not a value of the graph",
        r->name, name);
  KEEL_TRY(find_axis(r, at, spec, &dim, &count));
  bool all = on_all(spec, at->devices);
  if (at->fault || (!count && all)) return KD_OK; /* each device has it all */
  if (!KEEL_ARENA_ROOM(&r->program->arena, at->shardings, at->sharding_count,
                       at->sharding_capacity))
    return KD_OUT_OF_MEMORY;
  const Onnx__SimpleShardedDimProto *simple =
      dim ? dim->simple_sharding[0] : NULL;
  keel_sharding *to = &at->shardings[at->sharding_count];
  *to = (keel_sharding){
      .node = r->name,
      .name = r->from->function->values[value].name,
      .value = value,
      .axis = dim ? dim->axis : 0,
      .dim = simple && simple->dim_case ==
                           ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE
                 ? simple->dim_value
                 : -1,
      .plain = all && count == 1 && dim->n_simple_sharding == 1 &&
               simple->num_shards == at->devices};
  at->sharding_count++;
  return KD_OK;
}

static keel_status add_stage(reader *r, keel_configuration *at, int32_t stage) {
  if (stage < 0 || stage >= at->devices)
    return annotations_note(
        r, &at->fault,
        "node \"%s\" is in stage %ld, and configuration \"%.100s\""
        " has %lld devices",
        r->name, (long)stage, at->name, (long long)at->devices);
  if (at->stage_count && at->stages[at->stage_count - 1].node == r->name)
    return annotations_note(r, &at->fault, "node \"%s\" is in two stages",
                            r->name);
  if (!KEEL_ARENA_ROOM(&r->program->arena, at->stages, at->stage_count,
                       at->stage_capacity))
    return KD_OUT_OF_MEMORY;
  at->stages[at->stage_count++] =
      (keel_staging){r->name, r->made, (uint32_t)stage};
  return KD_OK;
}

static keel_status annotations_read_node(
    reader *r, const Onnx__NodeDeviceConfigurationProto *own) {
  const char *id = own->configuration_id ? own->configuration_id : "";
  uint32_t place = onnx_index_find(&r->names, "", id, "");
  if (place == KEEL_ABSENT)
    return annotations_note(
        r, &r->to->fault,
        "node \"%s\" is of configuration \"%.100s\", which the model"
        " does not have",
        r->name, id);
  keel_configuration *at = &r->to->list[place];
  for (size_t i = 0; i < own->n_sharding_spec; i++)
    KEEL_TRY(add_sharding(r, at, own->sharding_spec[i]));
  return own->has_pipeline_stage ? add_stage(r, at, own->pipeline_stage)
                                 : KD_OK;
}

/* ---- of a model --------------------------------------------------------------------- */

static keel_status add_configuration(
    reader *r, const Onnx__DeviceConfigurationProto *own) {
  keel_annotations *to = r->to;
  if (to->count == CONFIGURATIONS_MOST)
    return annotations_note(r, &to->fault,
                            "the model has more than %d configurations",
                            CONFIGURATIONS_MOST);
  keel_configuration *at = &to->list[to->count];
  at->name = keel_arena_copy(&r->program->arena, own->name ? own->name : "");
  at->devices = own->num_devices;
  if (!at->name) return KD_OUT_OF_MEMORY;
  if (onnx_index_find(&r->names, "", at->name, "") != KEEL_ABSENT)
    KEEL_TRY(annotations_note(
        r, &to->fault, "two configurations are named \"%.100s\"", at->name));
  return onnx_index_add(&r->names, "", at->name, "", to->count++);
}

static keel_status read_configurations(reader *r) {
  const onnx_model *model = r->from->model;
  r->to->list = keel_arena_take(&r->program->arena,
                                model->n_configuration * sizeof *r->to->list);
  if (!r->to->list) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < model->n_configuration; i++)
    KEEL_TRY(add_configuration(r, model->configuration[i]));
  return KD_OK;
}

static keel_status read_nodes(reader *r) {
  const onnx_graph *graph = r->from->model->graph;
  r->to->nodes = (uint32_t)graph->n_node;
  for (size_t i = 0; i < graph->n_node; i++) {
    const onnx_node *node = graph->node[i];
    if (node->n_device_configurations) KEEL_TRY(begin_node(r, node));
    for (size_t k = 0; k < node->n_device_configurations; k++)
      KEEL_TRY(annotations_read_node(r, node->device_configurations[k]));
  }
  return KD_OK;
}

keel_status keel_onnx_annotations(const onnx_annotated *from,
                                  keel_program *program) {
  reader r = {.from = from, .program = program, .to = &program->annotations};
  if (!from->model->n_configuration) return KD_OK;
  keel_status status = read_configurations(&r);
  if (status == KD_OK) status = read_nodes(&r);
  onnx_index_free(&r.names);
  return status;
}
