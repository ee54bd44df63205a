/* run.c - nodes, tensors on the device, launches. */
#include "suite/run.h"
#include "ops/vendor.h"

#include <math.h>

#include "suite/launch.h"

const kc_layout kc_plain = {.fill = 0xff, .inplace = -1};

/* ---- nodes ---------------------------------------------------------------------- */

/* A host tensor that shape functions and plugins may read. */
static void make_shell(kc_node *node, uint32_t i, const value *from) {
  keel_tensor *shell = &node->shells[i];
  node->data[i] = kc_take(value_size(from) + 16);
  value_store(from, node->data[i]);
  atomic_init(&shell->refs, 1u << 30); /* never freed by a release */
  shell->type = node->in[i];
  shell->data = node->data[i];
}

static bool infer(kc_node *node, const kc_op *op) {
  keel_tensor *values[KC_PORTS] = {0};
  for (uint32_t i = 0; i < op->in_count; i++)
    values[i] = op->in[i] ? &node->shells[i] : NULL;
  keel_infer infer = {.op = node->op,
                      .where = "",
                      .input_count = op->in_count,
                      .output_count = op->out_count,
                      .in = node->in,
                      .values = values,
                      .out = node->out};
  if (keel_infer_types(&infer) != KD_OK) return false;
  memcpy(node->dtypes, infer.dtypes, sizeof node->dtypes);
  node->dynamic = (node->op->schema->flags & KEEL_OP_DYNAMIC) != 0;
  return !infer.unknown || node->dynamic;
}

static kc_node *begin_node(const kc_op *op) {
  if (keel_schema_ready() != KD_OK) return NULL;
  const keel_schema *schema =
      keel_op_find(kc_ops(), op->domain ? op->domain : "", op->name);
  if (!schema) {
    keel_op_missing(kc_ops(), op->domain ? op->domain : "", op->name);
    return NULL;
  }
  kc_node *node = kc_take(sizeof *node);
  if (keel_opdef_create(NULL, schema, op->attrs, op->attr_count, NULL,
                        &node->op) != KD_OK) {
    free(node);
    return NULL;
  }
  node->node = (struct kd_node){.op = node->op,
                                .name = "",
                                .input_count = op->in_count,
                                .output_count = op->out_count,
                                .inputs = node->in,
                                .outputs = node->out};
  return node;
}

kc_node *kc_node_asked(const kc_op *op) {
  kc_node *node = begin_node(op);
  bool good = node != NULL;
  for (uint32_t i = 0; good && i < op->in_count; i++) {
    if (!op->in[i]) continue;
    good = keel_type_of(op->in[i]->dtype, op->in[i]->rank, op->in[i]->dims,
                        &node->in[i]) == KD_OK;
    if (!good) break;
    make_shell(node, i, op->in[i]);
    if (op->constants >> i & 1) node->constants[i] = &node->shells[i];
  }
  if (good && op->constants) node->node.constants = node->constants;
  if (good) return node;
  kc_node_free(node);
  return NULL;
}

kc_node *kc_node_make(const kc_op *op, char *why, size_t size) {
  kc_node *node = kc_node_asked(op);
  if (node && infer(node, op)) return node;
  if (why) snprintf(why, size, "%s", keel_message());
  kc_node_free(node);
  return NULL;
}

kc_node *kc_node_typed(const kc_op *op, const keel_type *const *in,
                       const keel_type *const *out) {
  kc_node *node = begin_node(op);
  if (!node) kc_stop("no node for %s: %s", op->name, keel_message());
  for (uint32_t i = 0; i < op->in_count; i++)
    node->in[i] = in[i];
  for (uint32_t i = 0; i < op->out_count; i++)
    node->out[i] = out[i];
  return node;
}

void kc_node_free(kc_node *node) {
  if (!node) return;
  for (uint32_t i = 0; i < KC_PORTS; i++)
    free(node->data[i]);
  keel_opdef_release(node->op);
  free(node);
}

/* ---- definitions ------------------------------------------------------------------ */

static bool allows(uint64_t types, const keel_type *type) {
  return !types || !type ||
         (type->dtype < 64 && (types & KD_TYPES(type->dtype)));
}

/* As the host has it: 0 is as far as the plugin's headers knew. */
static uint32_t newest(const kd_kernel_def *def) {
  const char *domain = def->domain ? def->domain : "ai.onnx";
  if (def->opset_max) return def->opset_max;
  if (!strcmp(domain, "keel")) return KD_VERSION_MINOR(kp.p.abi_version);
  if (strcmp(domain, "ai.onnx") != 0) return UINT32_MAX;
  return kp.p.opset ? kp.p.opset : 28;
}

bool kc_def_fits(const kd_kernel_def *def, const kc_node *node) {
  const keel_schema *schema = node->op->schema;
  if (strcmp(def->op, schema->name) != 0 ||
      strcmp(def->domain ? def->domain : "ai.onnx", schema->domain) != 0 ||
      (def->opset_min && schema->since < def->opset_min) ||
      schema->since > newest(def))
    return false;
  for (uint32_t i = 0; i < node->node.input_count; i++)
    if (!allows(
            def->input_types[i < KD_MAX_TYPED_INPUTS ? i
                                                     : KD_MAX_TYPED_INPUTS - 1],
            node->in[i]))
      return false;
  for (uint32_t i = 0; i < node->node.output_count; i++)
    if (!allows(def->output_types[i < KD_MAX_TYPED_OUTPUTS
                                      ? i
                                      : KD_MAX_TYPED_OUTPUTS - 1],
                node->out[i]))
      return false;
  return true;
}

kd_status kc_supports(const kd_kernel_def *def, const kc_node *node) {
  if (!def->supports) return KD_OK;
  return KC_CALL(kd_status, def->supports(kc_device(), &node->node),
                 "%s.supports", def->op);
}

const kd_kernel_def *kc_def_for(const kc_node *node) {
  const kd_kernel_def *best = NULL;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!kc_def_fits(def, node) || (best && def->priority <= best->priority))
      continue;
    if (kc_supports(def, node) == KD_OK) best = def;
  }
  return best;
}

/* ---- layouts ------------------------------------------------------------------------ */

uint64_t kc_layout_size(const keel_type *type, uint32_t layout) {
  if (!kp.p.layouts || !type || !keel_type_known(type)) return 0;
  kd_type view = keel_type_view(type);
  view.layout = layout;
  return KC_CALL(uint64_t, kp.l.size(kc_device(), &view),
                 "layout.size(layout %#x)", layout);
}

/* An agnostic kernel gets all its arguments in one shape and layout. */
static bool lay_all(kc_node *node, uint32_t layout) {
  for (uint32_t i = 0; i < node->node.input_count; i++) {
    if (!node->in[i] || node->in[i] != node->out[0] || node->constants[i])
      return false;
    node->layouts[i] = layout;
  }
  node->node.output_layout = layout;
  return node->node.input_count > 0;
}

/* Inputs of the output's type behind the first. */
static bool lay_added(kc_node *node, uint32_t layout) {
  bool any = false;
  for (uint32_t i = 1; i < node->node.input_count; i++)
    if (node->in[i] == node->out[0] && !node->constants[i]) {
      node->layouts[i] = layout;
      any = true;
    }
  return any;
}

bool kc_node_lay(kc_node *node, const kd_kernel_def *def, uint32_t layout,
                 uint32_t which) {
  if (which == KC_LAY_ADDED)
    return !(def->flags & KD_KERNEL_LAYOUT_AGNOSTIC) &&
           kc_node_lay(node, def, layout, KC_LAY_BOTH) &&
           lay_added(node, layout);
  kc_node_rows(node);
  node->node.layouts = node->layouts;
  if (!node->out[0] || (def->flags & KD_KERNEL_DYNAMIC_OUTPUT)) return false;
  if (def->flags & KD_KERNEL_LAYOUT_AGNOSTIC)
    return which == KC_LAY_BOTH && kc_layout_size(node->out[0], layout) &&
           lay_all(node, layout);
  if (which & KC_LAY_INPUT) {
    if (!kc_layout_size(node->in[0], layout) || node->constants[0] ||
        (def->host_inputs & 1))
      return false;
    node->layouts[0] = layout;
  }
  if (!(which & KC_LAY_OUTPUT)) return true;
  if (!kc_layout_size(node->out[0], layout) || (def->host_outputs & 1))
    return false;
  node->node.output_layout = layout;
  return true;
}

void kc_node_rows(kc_node *node) {
  memset(node->layouts, 0, sizeof node->layouts);
  node->node.layouts = NULL;
  node->node.output_layout = KD_LAYOUT_ROW_MAJOR;
}

/* ---- tensors ------------------------------------------------------------------------- */

/* Fills a part of a buffer with one byte. */
static void write_byte(kc_buffer *buffer, uint64_t offset, uint64_t size,
                       uint8_t byte) {
  char *bytes = kc_take(size + 1);
  memset(bytes, byte, size);
  kc_write(buffer, offset, bytes, size);
  free(bytes);
}

kd_tensor kc_tensor_of(const keel_type *type, const kc_buffer *buffer,
                       uint32_t skew) {
  return (kd_tensor){
      .buffer = buffer->handle,
      .data = buffer->address ? buffer->address + skew : NULL,
      .offset = buffer->offset + skew,
      .size = type->bytes,
      .dims = type->dims,
      .dtype = type->dtype,
      .rank = type->rank,
  };
}

static kd_tensor host_view(const keel_type *type, void *data) {
  return (kd_tensor){.data = data,
                     .size = type->bytes,
                     .dims = type->dims,
                     .dtype = type->dtype,
                     .rank = type->rank,
                     .flags = KD_TENSOR_HOST};
}

/* A buffer for a tensor, or a piece of the layout's pool. */
static kc_buffer *room_for(kc_run *run, uint64_t size) {
  const kc_layout *layout = &run->layout;
  uint64_t align = kc_space(0).alignment ? kc_space(0).alignment : 64;
  if (!layout->pool) return kc_buffer_in(run->device, 0, size);
  uint64_t at =
      ((run->taken ? run->taken : layout->at) + align - 1) / align * align;
  run->taken = at + size + layout->gap;
  if (run->taken > layout->pool->size)
    return kc_buffer_in(run->device, 0, size);
  return kc_buffer_piece(layout->pool, at, size);
}

/* Its first dimension of several elements, or its rank. */
static uint32_t repeated_dim(uint32_t rank, const int64_t *dims) {
  uint32_t d = 0;
  while (d < rank && dims[d] < 2)
    d++;
  return d;
}

void kc_repeat(value *of) {
  uint32_t d = repeated_dim(of->rank, of->dims);
  int64_t inner = 1;
  for (uint32_t k = d + 1; k < of->rank; k++)
    inner *= of->dims[k];
  for (int64_t i = 0; d < of->rank && i < of->count; i++)
    of->x[i] = of->x[i - i / inner % of->dims[d] * inner];
}

static void lay_apart(const keel_type *type, kc_apart how, int64_t *strides) {
  uint32_t rank = type->rank, same = repeated_dim(rank, type->dims);
  int64_t step = 1;
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t d = how == KC_TURNED ? k : rank - 1 - k;
    if (how == KC_MIXED && rank > 2 && k < 2) d = rank - 2 + k;
    if (how == KC_MIXED && k == 0) step = 2;
    strides[d] = how == KC_GAPS ? 2 * step : step;
    if (how == KC_REPEATED && d == same) {
      strides[d] = 0;
      continue;
    }
    step *= type->dims[d];
    if ((how == KC_PITCH && k == 0) || how == KC_MIXED) step += 3;
  }
}

/* Puts elements as far apart as the layout says; returns the bytes that they reach over. */
static uint64_t run_spread(const keel_type *type, const char *from,
                           kc_apart how, char **out, int64_t *strides) {
  size_t each = kd_dtype_size(type->dtype);
  int64_t last = 0;
  lay_apart(type, how, strides);
  for (uint32_t d = 0; d < type->rank && type->elements; d++)
    last += (type->dims[d] - 1) * strides[d];
  uint64_t size = ((uint64_t)last + 1) * each;
  char *to = kc_take(size);
  memset(to, 0x7f, size);
  for (int64_t i = 0; i < type->elements; i++) {
    int64_t at = 0, left = i;
    for (uint32_t d = type->rank; d-- > 0; left /= type->dims[d])
      at += left % type->dims[d] * strides[d];
    memcpy(to + (size_t)at * each, from + (size_t)i * each, each);
  }
  *out = to;
  return size;
}

/* An input in a layout of the device's own, which brings it there from rows. */
static void make_laid(kc_run *run, uint32_t i, const value *from,
                      uint32_t layout) {
  const keel_type *type = run->node->in[i];
  uint64_t size = kc_layout_size(type, layout);
  char *rows = kc_take(type->bytes + 16);
  value_store(from, rows);
  kc_buffer *plain = kc_buffer_in(run->device, 0, type->bytes);
  kc_write(plain, 0, rows, type->bytes);
  run->in_buffers[i] = kc_buffer_in(run->device, 0, size + run->layout.skew);
  run->in[i] = kc_tensor_of(type, run->in_buffers[i], run->layout.skew);
  run->in[i].layout = layout;
  run->in[i].size = size;
  const kd_tensor source = kc_tensor_of(type, plain, 0);
  kc_ok(kc_reorder(run->device, &source, &run->in[i]), "layout.from_rows");
  run->in_bytes[i] = kc_take(size + 16);
  run->in_sizes[i] = size;
  kc_read(run->in_buffers[i], run->layout.skew, run->in_bytes[i], size);
  kc_buffer_free(plain);
  free(rows);
}

static void make_input(kc_run *run, uint32_t i, const value *from) {
  const keel_type *type = run->node->in[i];
  bool host = i < 32 && (run->def->host_inputs >> i & 1);
  char *bytes = kc_take(type->bytes + 16);
  value_store(from, bytes);
  uint64_t size = type->bytes;
  const int64_t *strides = NULL;
  uint32_t own =
      host ? KD_LAYOUT_ROW_MAJOR : keel_node_layout(&run->node->node, i);
  if (own) {
    free(bytes);
    make_laid(run, i, from, own);
    return;
  }
  if (run->layout.apart && !host && type->rank && kd_dtype_size(type->dtype) &&
      (run->def->flags & KD_KERNEL_STRIDED)) {
    char *wide = NULL;
    size = run_spread(type, bytes, run->layout.apart, &wide, run->strides[i]);
    free(bytes);
    bytes = wide;
    strides = run->strides[i];
  }
  run->in_bytes[i] = bytes;
  run->in_sizes[i] = size;
  if (host) {
    run->in[i] = host_view(type, bytes);
    return;
  }
  uint64_t capacity = type->bytes;
  uint32_t skew = run->in_skews[i] =
      run->layout.skew + run->layout.behind * kd_dtype_size(type->dtype);
  if (capacity < size) capacity = size;
  run->in_buffers[i] = room_for(run, capacity + skew);
  kc_write(run->in_buffers[i], skew, bytes, size);
  run->in[i] = kc_tensor_of(type, run->in_buffers[i], skew);
  run->in[i].strides = strides;
}

/* The input that an output lies over: as the rule wants it, or as it must; -1: none. */
static int lies_over(const kc_run *run, uint32_t j) {
  const kd_kernel_def *def = run->def;
  if (run->layout.inplace >= 0 && j == run->layout.of)
    return run->layout.inplace;
  for (uint32_t i = 0; i < def->alias_count; i++)
    if (def->aliases[i].output == j &&
        (def->aliases[i].flags & KD_ALIAS_MUST) &&
        run->in_buffers[def->aliases[i].input] &&
        run->node->in[def->aliases[i].input] == run->node->out[j])
      return (int)def->aliases[i].input;
  return -1;
}

static void make_output(kc_run *run, uint32_t j, const keel_type *type) {
  uint32_t own = j ? KD_LAYOUT_ROW_MAJOR : run->node->node.output_layout;
  uint64_t capacity = own ? kc_layout_size(type, own) : type->bytes;
  if (j < 32 && (run->def->host_outputs >> j & 1)) {
    run->out_host[j] = kc_take(type->bytes + 16);
    memset(run->out_host[j], run->layout.fill, type->bytes);
    run->out[j] = host_view(type, run->out_host[j]);
    return;
  }
  int from = run->over[j] = lies_over(run, j);
  if (from >= 0) {
    run->out[j] =
        kc_tensor_of(type, run->in_buffers[from], run->in_skews[from]);
  } else {
    run->out_buffers[j] = room_for(run, capacity + run->layout.skew);
    write_byte(run->out_buffers[j], run->layout.skew, capacity,
               run->layout.fill);
    run->out[j] = kc_tensor_of(type, run->out_buffers[j], run->layout.skew);
  }
  run->out[j].layout = own;
  run->out[j].size = capacity;
}

/* ---- runs ---------------------------------------------------------------------------------- */

kd_status kc_run_make(kc_node *node, const kd_kernel_def *def, const kc_op *op,
                      const kc_layout *layout, kc_run **out_run) {
  kc_run *run = kc_take(sizeof *run);
  run->node = node;
  run->def = def;
  run->device = kc_device();
  run->layout = *layout;
  for (uint32_t i = 0; i < op->in_count; i++)
    if (op->in[i]) make_input(run, i, op->in[i]);
  if (layout->same_input) run->in[1] = run->in[0];
  for (uint32_t j = 0; j < op->out_count; j++)
    if (node->out[j] && !(def->flags & KD_KERNEL_DYNAMIC_OUTPUT))
      make_output(run, j, node->out[j]);
  run->launch = (kd_launch){
      .struct_size = sizeof(kd_launch),
      .input_count = op->in_count,
      .output_count = op->out_count,
      .inputs = run->in,
      .outputs = run->out,
      .node = &node->node,
      .device = run->device,
      .data = def->data,
  };
  kd_status status = KD_OK;
  if (def->create)
    status = KC_CALL(kd_status,
                     def->create(run->device, def, &node->node, &run->kernel),
                     "%s.create", def->op);
  if (status != KD_OK) {
    kc_said(status, "create");
    run->kernel = NULL;
    kc_run_free(run);
    return status;
  }
  if (run->kernel && def->taken) {
    uint64_t taken =
        KC_CALL(uint64_t, def->taken(run->kernel), "%s.taken", def->op);
    for (uint32_t i = 0; i < op->in_count; i++)
      if ((taken >> i & 1) && node->constants[i] && node->node.constants)
        run->in[i] = (kd_tensor){0}; /* as the host passes it */
  }
  *out_run = run;
  return KD_OK;
}

kc_run *kc_run_of(kc_node *node, const kd_kernel_def *def, const kc_op *op,
                  const kc_layout *layout) {
  kc_run *run = NULL;
  kc_ok(kc_run_make(node, def, op, layout, &run), "create");
  return run;
}

void kc_run_refill(kc_run *run, const kc_op *op) {
  for (uint32_t i = 0; i < op->in_count; i++) {
    if (!op->in[i] || run->in[i].strides || run->in[i].layout) continue;
    value_store(op->in[i], run->in_bytes[i]);
    if (run->in_buffers[i])
      kc_write(run->in_buffers[i], run->in_skews[i], run->in_bytes[i],
               run->in_sizes[i]);
  }
  for (uint32_t j = 0; j < op->out_count; j++) {
    uint64_t size = run->out_buffers[j] ? run->out_buffers[j]->size : 0;
    if (!size || run->set[j]) continue;
    write_byte(run->out_buffers[j], 0, size, run->layout.fill);
  }
}

static kd_status take_scratch(kc_run *run) {
  if (!run->def->workspace) return KD_OK;
  uint64_t size =
      KC_CALL(uint64_t, run->def->workspace(run->kernel, &run->launch),
              "%s.workspace", run->def->op);
  if (size > kc.max_memory) {
    kc_check(false, "%s asks for a workspace of %llu bytes", run->def->op,
             (unsigned long long)size);
    return KD_OUT_OF_MEMORY;
  }
  if (run->scratch && run->scratch->size < size) {
    kc_buffer_free(run->scratch);
    run->scratch = NULL;
  }
  if (!size) {
    run->launch.workspace = (kd_tensor){0};
    return KD_OK;
  }
  if (!run->scratch) run->scratch = kc_buffer_in(run->device, 0, size);
  write_byte(run->scratch, 0, size, run->layout.fill);
  run->scratch_dim = (int64_t)size;
  run->launch.workspace = (kd_tensor){.buffer = run->scratch->handle,
                                      .data = run->scratch->address,
                                      .offset = run->scratch->offset,
                                      .size = size,
                                      .dims = &run->scratch_dim,
                                      .dtype = KD_U8,
                                      .rank = 1};
  return KD_OK;
}

/* What the run before wrote over is there again. */
static void restore_inputs(const kc_run *run) {
  for (uint32_t j = 0; j < run->launch.output_count; j++) {
    int i = run->over[j];
    if (i >= 0 && run->ran)
      kc_write(run->in_buffers[i], run->in_skews[i], run->in_bytes[i],
               run->in_sizes[i]);
  }
}

static kd_status enqueue_short(kc_run *run, kd_stream *stream) {
  kd_status status = take_scratch(run);
  if (status != KD_OK) return status;
  restore_inputs(run);
  run->ran = true;
  char text[128];
  size_t used = (size_t)snprintf(text, sizeof text, "%s", run->def->op);
  for (uint32_t i = 0; i < run->launch.input_count && used < sizeof text; i++) {
    char type[64];
    used += (size_t)snprintf(
        text + used, sizeof text - used, "%s%s", i ? ", " : "(",
        keel_type_text(run->node->in[i], type, sizeof type));
  }
  if (run->fail_at) {
    atomic_store(&kc_host.allocations, 0);
    atomic_store(&kc_host.fail_at, run->fail_at);
  }
  status =
      KC_CALL(kd_status, run->def->enqueue(run->kernel, stream, &run->launch),
              "enqueue %s)", text);
  /* a device that says how many launches it takes may be full */
  for (int i = 0;
       status == KD_BUSY && stream && kc_info()->max_in_flight && i < 1000;
       i++) {
    kd_status waited = kc_finish(stream);
    if (waited != KD_OK) return waited;
    status =
        KC_CALL(kd_status, run->def->enqueue(run->kernel, stream, &run->launch),
                "enqueue %s), again", text);
  }
  if (status != KD_OK) kc_said(status, "enqueue");
  return status;
}

kd_status kc_run_enqueue(kc_run *run, kd_stream *stream) {
  kd_status status = enqueue_short(run, stream);
  if (run->fail_at) atomic_store(&kc_host.fail_at, 0);
  return status;
}

/* The stream of runs that are waited for: of one device, until it closes or the
 * case ends. */
static struct {
  kd_stream *stream;
  kd_device *device;
  uint32_t generation;
} waited;

void kc_run_close(void) {
  if (waited.stream && waited.generation == kc_generation)
    kc_stream_free(waited.stream);
  waited.stream = NULL;
}

static kd_stream *waited_stream(kd_device *device) {
  if (!kc_claims(KC_ASYNC)) return NULL;
  if (!waited.stream || waited.generation != kc_generation ||
      waited.device != device) {
    kc_run_close();
    waited.stream = kc_stream_make(device);
    waited.device = device;
    waited.generation = kc_generation;
  }
  return waited.stream;
}

kd_status kc_reorder_in(kd_device *device, kd_stream *stream,
                        const kd_tensor *source, const kd_tensor *target) {
  return target->layout
             ? KC_CALL(kd_status,
                       kp.l.from_rows(device, stream, source, target),
                       "layout.from_rows(%llu bytes, layout %#x)",
                       (unsigned long long)source->size, target->layout)
             : KC_CALL(kd_status, kp.l.to_rows(device, stream, source, target),
                       "layout.to_rows(%llu bytes, layout %#x)",
                       (unsigned long long)target->size, source->layout);
}

kd_status kc_reorder(kd_device *device, const kd_tensor *source,
                     const kd_tensor *target) {
  kd_stream *stream = waited_stream(device);
  kd_status status = kc_reorder_in(device, stream, source, target);
  return status == KD_OK && stream ? kc_finish(stream) : status;
}

kd_status kc_run_now(kc_run *run) {
  kd_stream *stream = waited_stream(run->device);
  if (!stream) return kc_run_enqueue(run, NULL);
  kd_status status = enqueue_short(run, stream);
  char said[512];
  snprintf(said, sizeof said, "%s", kc_message());
  /* without synchronize, waiting makes an event, which needs memory */
  if (run->fail_at && !kp.s.synchronize) atomic_store(&kc_host.fail_at, 0);
  kd_status end = kc_finish(stream);
  if (run->fail_at) atomic_store(&kc_host.fail_at, 0);
  if (end != KD_OK) /* without synchronize a failed stream stays failed */
    kc_run_close();
  /* the reason is the launch's, and not what the wait for it says */
  return status != KD_OK ? kc_services()->fail_text(status, said) : end;
}

kd_status kc_set_output(const kd_launch *launch, uint32_t index, uint32_t rank,
                        const int64_t *dims, kd_tensor *out_tensor) {
  kc_run *run =
      (kc_run *)((char *)(uintptr_t)launch - offsetof(kc_run, launch));
  const kd_host *host = kc_services();
  if (!(run->def->flags & KD_KERNEL_DYNAMIC_OUTPUT))
    return host->fail(KD_FAILED_PRECONDITION, "not a dynamic kernel");
  if (index >= run->launch.output_count || index >= 4 || run->set[index] ||
      rank > KD_MAX_RANK)
    return host->fail(KD_INVALID_ARGUMENT, "set_output(%u)", index);
  if (atomic_fetch_add(&kc_host.calls, 1) + 1 ==
      atomic_load(&kc_host.service_fail_at)) {
    atomic_fetch_add(&kc_host.outputs_refused, 1);
    return host->fail(KD_OUT_OF_MEMORY, "no memory for an output");
  }
  const keel_type *type = NULL;
  kd_dtype dtype = run->node->dtypes[index];
  if (keel_type_of(dtype, rank, dims, &type) != KD_OK || !keel_type_known(type))
    return host->fail(KD_INVALID_ARGUMENT, "set_output with wrong dims");
  run->set[index] = true;
  run->node->out[index] = type;
  make_output(run, index, type);
  *out_tensor = run->out[index];
  return KD_OK;
}

kc_buffer *kc_run_under(const kc_run *run, uint32_t output) {
  int over = run->over[output];
  return over >= 0 ? run->in_buffers[over] : run->out_buffers[output];
}

value *kc_run_output(kc_run *run, uint32_t index) {
  const keel_type *type = run->node->out[index];
  if (!type || (!run->out[index].buffer && !run->out_host[index])) return NULL;
  value *got = value_make(type->dtype, type->rank, type->dims);
  if (run->out_host[index]) {
    value_load(got, run->out_host[index]);
    return got;
  }
  char *bytes = kc_take(type->bytes + 16);
  if (run->out[index].layout) {
    kc_buffer *plain = kc_buffer_in(run->device, 0, type->bytes);
    const kd_tensor target = kc_tensor_of(type, plain, 0);
    kc_ok(kc_reorder(run->device, &run->out[index], &target), "layout.to_rows");
    kc_read(plain, 0, bytes, type->bytes);
    kc_buffer_free(plain);
  } else {
    int over = run->over[index];
    kc_read(kc_run_under(run, index),
            over >= 0 ? run->in_skews[over] : run->layout.skew, bytes,
            type->bytes);
  }
  value_load(got, bytes);
  free(bytes);
  return got;
}

static bool is_under(const kc_run *run, uint32_t input) {
  for (uint32_t j = 0; j < run->launch.output_count; j++)
    if (run->over[j] == (int)input) return true;
  return false;
}

bool kc_run_inputs_intact(kc_run *run) {
  bool intact = true;
  for (uint32_t i = 0; i < run->launch.input_count; i++) {
    if (!run->in_buffers[i] || is_under(run, i)) continue;
    char *now = kc_take(run->in_sizes[i]);
    kc_read(run->in_buffers[i], run->in_skews[i], now, run->in_sizes[i]);
    uint64_t first = kc_differs(now, run->in_bytes[i], run->in_sizes[i]);
    if (first < run->in_sizes[i]) {
      intact = false;
      kc_violation("kernel.inputs-untouched",
                   "%s changed byte %llu of its input %u", run->def->op,
                   (unsigned long long)first, i);
    }
    free(now);
  }
  return intact;
}

void kc_run_free(kc_run *run) {
  if (!run) return;
  if (run->kernel && run->def->destroy)
    KC_DO(run->def->destroy(run->kernel), "%s.destroy", run->def->op);
  for (uint32_t i = 0; i < KC_PORTS; i++) {
    kc_buffer_free(run->in_buffers[i]);
    kc_buffer_free(run->out_buffers[i]);
    free(run->in_bytes[i]);
    free(run->out_host[i]);
  }
  kc_buffer_free(run->scratch);
  if (run->node->dynamic) memset(run->node->out, 0, sizeof run->node->out);
  free(run);
}
