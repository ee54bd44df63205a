/* launch.c - moves inputs into place, allocates outputs, and calls the kernel. */
#include "eager/launch.h"
#include "device/context.h"
#include "device/stream.h"

#include "base/refs.h"
#include "device/backoff.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/work.h"
#include "memory/copy.h"
#include "memory/device_copy.h"
#include "memory/late.h"
#include "memory/layout.h"
#include "memory/mapping.h"
#include "memory/transfer.h"
#include "threads/pool.h"
#include "trace/tickets.h"
#include "trace/trace.h"

#define FEW 12 /* arguments that need no allocation */

/* The inputs as passed, and as the kernel gets them. */
typedef struct given {
  keel_tensor *const *inputs;
  keel_tensor **moved;
  kd_tensor *views;
  uint32_t donated;
} given;

/* kd_launch, and what the host needs around it. */
typedef struct launch {
  kd_launch view; /* must be first: cast from kd_launch */
  keel_call_site *site;
  const keel_specialisation *spec;
  keel_tensor **outputs;
  kd_tensor *out_views;
  const given *in;
  kd_dtype dynamic_dtypes[4];
} launch;

/* Field by field: building and copying a struct would cost more than the call. */
static inline void fill_view(kd_tensor *view, const keel_tensor *tensor) {
  const keel_type *type = tensor->type;
  keel_launch_point(view, tensor);
  view->size = tensor->layout ? tensor->layout_bytes : type->bytes;
  view->dims = type->dims;
  view->strides = tensor->strides;
  view->dtype = type->dtype;
  view->rank = type->rank;
  view->layout = tensor->layout;
  view->reserved = 0;
}

/* ---- failures --------------------------------------------------------------- */

static keel_status while_ran(const keel_call_site *site,
                             const keel_specialisation *spec,
                             keel_status status) {
  const keel_work_name name = keel_launch_name(site, spec);
  return keel_work_while_one(spec->device, &name, status);
}

/* Adds which of the launch's values had no memory, or could not be brought there. */
static keel_status for_value(const launch *run, const char *what,
                             uint32_t index, const keel_type *type,
                             keel_status status) {
  char text[200];
  if (status == KD_OK) return status;
  keel_while(status, "for %s %u, %s", what, (unsigned)index,
             keel_type_text(type, text, sizeof text));
  return while_ran(run->site, run->spec, status);
}

/* This launch loses a device without a stream: the reason of the loss names it. */
keel_status keel_launch_failed(const keel_call_site *site,
                               const keel_specialisation *spec,
                               kd_status status) {
  bool first = !spec->device->stream && !atomic_load(&spec->device->lost) &&
               keel_has_error();
  if (first) while_ran(site, spec, status);
  status = keel_device_check(spec->device, status);
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return first ? status : while_ran(site, spec, status);
}

/* ---- inputs --------------------------------------------------------------- */

/* In a form that kernels can read. stays: other launches read it, too. */
static keel_status make_plain(keel_tensor *tensor, bool stays,
                              keel_tensor **out_plain) {
  return !keel_tensor_misaligned(tensor) ? keel_copy_rows(tensor, out_plain)
         : stays                         ? keel_mapping_keep(tensor, out_plain)
                 : keel_mapping_align(tensor, out_plain);
}

static keel_status move_input(keel_call_site *site, uint32_t index,
                              keel_tensor *tensor, keel_device *device,
                              bool host_argument, keel_tensor **out_moved) {
  uint64_t begin = site->copy_time ? keel_now() : 0;
  keel_tensor *plain = NULL;
  bool in_host = host_argument || keel_device_addressable(device);
  bool stays = in_host && site->constants && site->constants[index] == tensor;
  KEEL_TRY(make_plain(tensor, stays, &plain));
  if (keel_tracing()) keel_stream_for(site->op->schema->name, site->where);
  keel_status status = KD_OK;
  if (keel_launch_in_place(plain, device, host_argument))
    *out_moved = keel_tensor_retain(plain);
  else
    status =
        in_host
            ? keel_copy_to(plain, host_argument ? NULL : device, out_moved)
            : keel_transfer_begin(plain, device, out_moved); /* ready at once */
  keel_stream_for(NULL, NULL);
  keel_tensor_release(plain);
  if (site->copy_time)
    __atomic_fetch_add(site->copy_time, keel_now() - begin, __ATOMIC_RELAXED);
  return status;
}

/* Fills the views. Inputs that had to be moved go into `moved`, to be released. */
static keel_status place_inputs(launch *run, keel_tensor *const *inputs,
                                kd_tensor *views, keel_tensor **moved) {
  const keel_specialisation *spec = run->spec;
  uint32_t host_inputs = spec->instance->def->host_inputs;
  uint32_t flags = spec->instance->def->flags;
  for (uint32_t i = 0; i < spec->input_count; i++) {
    keel_tensor *tensor = inputs[i];
    if (!tensor || keel_instance_has_taken(spec->instance, i)) {
      views[i] = (kd_tensor){0};
      continue;
    }
    if (tensor->late)
      KEEL_TRY(for_value(run, "input", i, inputs[i]->type,
                         keel_late_get(inputs[i], &tensor)));
    bool host = i < 32 && (host_inputs >> i & 1);
    bool any_offset = flags & KD_KERNEL_ANY_OFFSET;
    if (tensor->layout != keel_node_layout(&spec->node, i) ||
        !(any_offset && !host
              ? keel_transfer_reaches(tensor, spec->device)
              : keel_launch_in_place(tensor, spec->device, host))) {
      KEEL_TRY(for_value(
          run, "input", i, tensor->type,
          move_input(run->site, i, tensor, spec->device, host, &moved[i])));
      tensor = moved[i];
    }
    fill_view(&views[i], tensor);
  }
  return KD_OK;
}

/* ---- outputs -------------------------------------------------------------- */

/* An input whose memory the output may reuse, or NULL. */
static keel_tensor *forwardable(const keel_specialisation *spec,
                                keel_tensor *const *inputs, uint32_t allowed,
                                uint32_t index, const keel_type *type) {
  uint32_t layout = index ? KD_LAYOUT_ROW_MAJOR : spec->node.output_layout;
  for (; allowed; allowed &= allowed - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(allowed);
    keel_tensor *tensor = i < spec->input_count ? inputs[i] : NULL;
    if (tensor && tensor->type->bytes == type->bytes &&
        tensor->layout == layout &&
        keel_launch_may_reuse(tensor, &spec->device->heap))
      return tensor;
  }
  return NULL;
}

static keel_heap *heap_of(const keel_specialisation *spec, uint32_t index) {
  bool host = index < 32 && spec->instance->def->host_outputs >> index & 1;
  return host ? &spec->device->context->host : &spec->device->heap;
}

static keel_status make_output(const keel_specialisation *spec, uint32_t index,
                               const keel_type *type, keel_tensor *forward,
                               keel_tensor **out_tensor) {
  keel_heap *heap = heap_of(spec, index);
  if (forward) return keel_tensor_view(forward, type, out_tensor);
  if (index == 0 && spec->node.output_layout)
    return keel_layout_make(spec->device, type, spec->node.output_layout,
                            out_tensor);
  return keel_tensor_on(heap, type, out_tensor);
}

/* An output that must share the input's memory. A moved input is exclusively ours; any
 * other input is copied. */
static keel_status make_over(launch *run, uint32_t index, uint32_t input,
                             const keel_type *type, const given *in) {
  keel_tensor *from = in->moved[input], *made = NULL;
  if (from && keel_refs_unique(&from->refs) && from->buffer &&
      keel_buffer_unique(from->buffer))
    return keel_tensor_view(from, type, &run->outputs[index]);
  if (!from) from = keel_late_there(in->inputs[input]);
  KEEL_TRY(make_output(run->spec, index, type, NULL, &made));
  run->outputs[index] = made;
  KEEL_TRY(keel_tensor_location(from) == run->spec->device &&
                   keel_device_can_copy(run->spec->device)
               ? keel_device_copy(from, 0, made, 0, type->bytes)
               : keel_transfer_into(from, made));
  fill_view(&in->views[input], made);
  return KD_OK;
}

static keel_status make_outputs(launch *run, const keel_type *const *types,
                                const given *in) {
  const keel_specialisation *spec = run->spec;
  const kd_kernel_def *def = spec->instance->def;
  for (uint32_t i = 0; i < spec->output_count; i++) {
    if (!types[i]) {
      run->out_views[i] = (kd_tensor){0};
      continue;
    }
    uint32_t allowed =
        in->donated ? keel_alias_inputs(def, i) & in->donated : 0;
    keel_tensor *forward =
        allowed ? forwardable(spec, in->inputs, allowed, i, types[i]) : NULL;
    uint32_t needed =
        def->alias_count ? keel_alias_needed(def, i) : KEEL_ABSENT;
    bool over = !forward && needed < spec->input_count &&
                spec->types[needed] == types[i] &&
                !keel_node_layout(&spec->node, needed) &&
                (i || !spec->node.output_layout);
    KEEL_TRY(for_value(
        run, "output", i, types[i],
        over ? make_over(run, i, needed, types[i], in)
             : make_output(spec, i, types[i], forward, &run->outputs[i])));
    fill_view(&run->out_views[i], run->outputs[i]);
  }
  return KD_OK;
}

kd_status keel_launch_set_output(const kd_launch *view, uint32_t index,
                                 uint32_t rank, const int64_t *dims,
                                 kd_tensor *out_tensor) {
  launch *run = (launch *)(uintptr_t)view;
  const keel_specialisation *spec = run->spec;
  if (!(spec->instance->def->flags & KD_KERNEL_DYNAMIC_OUTPUT))
    return keel_fail(KD_FAILED_PRECONDITION,
                     "set_output without KD_KERNEL_DYNAMIC_OUTPUT");
  if (index >= view->output_count || index >= 4 || run->outputs[index])
    return keel_fail(KD_INVALID_ARGUMENT, "set_output of output %u",
                     (unsigned)index);
  const keel_type *type = NULL;
  KEEL_TRY(keel_type_of(run->dynamic_dtypes[index], rank, dims, &type));
  if (!keel_type_known(type))
    return keel_fail(KD_INVALID_ARGUMENT, "set_output with a dimension of -1");
  /* the kernel is being enqueued, under the stream's lock */
  keel_heap *heap = heap_of(spec, index);
  keel_buffer *buffer = NULL;
  uint32_t layout = index ? KD_LAYOUT_ROW_MAJOR : spec->node.output_layout;
  uint64_t size =
      layout ? keel_layout_size(spec->device, type, layout) : type->bytes;
  if (layout && !size)
    return keel_fail(KD_UNIMPLEMENTED, "%s has no layout %#x for output 0",
                     spec->device->name, (unsigned)layout);
  KEEL_TRY(spec->device->stream ? keel_heap_take_now(heap, size, &buffer)
                                : keel_heap_take(heap, size, &buffer));
  keel_status status =
      keel_tensor_in_buffer(buffer, type, &run->outputs[index]);
  keel_buffer_release(buffer); /* the tensor holds it */
  if (status != KD_OK) return status;
  run->outputs[index]->layout = layout;
  run->outputs[index]->layout_bytes = layout ? size : 0;
  fill_view(&run->out_views[index], run->outputs[index]);
  *out_tensor = run->out_views[index];
  return KD_OK;
}

/* ---- the call ------------------------------------------------------------- */

static keel_status take_workspace(launch *run, keel_buffer **out_scratch,
                                  int64_t *dim) {
  const keel_instance *instance = run->spec->instance;
  uint64_t size = instance->def->workspace
                      ? instance->def->workspace(instance->handle, &run->view)
                      : 0;
  if (!size) return KD_OK;
  keel_status status =
      keel_heap_take(&run->spec->device->heap, size, out_scratch);
  if (status != KD_OK) {
    keel_while(status, "for its workspace");
    return while_ran(run->site, run->spec, status);
  }
  *dim = (int64_t)size;
  run->view.workspace = (kd_tensor){
      .buffer = (*out_scratch)->handle,
      .data = (*out_scratch)->address,
      .size = size,
      .dims = dim,
      .dtype = KD_U8,
      .rank = 1,
  };
  return KD_OK;
}

/* Fails for an input that failed work has written. Under the stream's lock. */
static kd_status check_inputs(const launch *run) {
  keel_device *device = run->spec->device;
  for (uint32_t i = 0; i < run->spec->input_count; i++) {
    const keel_tensor *moved = run->in->moved[i];
    const keel_tensor *tensor = moved ? moved : run->in->inputs[i];
    if (tensor) tensor = keel_late_there(tensor);
    if (tensor && keel_tensor_location(tensor) == device)
      KEEL_TRY(keel_failures_check_locked(tensor->buffer));
  }
  return KD_OK;
}

static kd_status enqueue_in_order(launch *run, keel_device *device) {
  const keel_instance *instance = run->spec->instance;
  keel_backoff backoff = {0};
  kd_status status;
  if (device->failures.count) KEEL_TRY(check_inputs(run));
  uint64_t ticket = keel_failures_ticket(device);
  const keel_work_name name = keel_launch_name(run->site, run->spec);
  keel_work_note(device, ticket, &name);
  do
    status =
        instance->def->enqueue(instance->handle, device->stream, &run->view);
  while (keel_backoff_retry(device, device->stream, &backoff, &status));
  for (uint32_t i = 0; i < run->spec->output_count; i++)
    if (run->outputs[i]) keel_failures_writes(run->outputs[i]->buffer, ticket);
  return status;
}

static kd_status launch_enqueue(launch *run) {
  const keel_instance *instance = run->spec->instance;
  keel_device *device = instance->device;
  if (!device->stream)
    return instance->def->enqueue(instance->handle, NULL, &run->view);
  pthread_mutex_lock(&device->stream_lock);
  kd_status status = enqueue_in_order(run, device);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

/* Tries again after trimming all pools, for a kernel that allocates its own outputs: it
 * could not wait for the device to free memory. */
static kd_status enqueue_again(launch *run) {
  for (uint32_t i = 0; i < run->spec->output_count; i++) {
    keel_tensor_release(run->outputs[i]);
    run->outputs[i] = NULL;
  }
  keel_heap_trim_all(run->spec->device->context);
  keel_clear_error();
  return launch_enqueue(run);
}

static keel_status check_set(const launch *run) {
  for (uint32_t i = 0; i < run->spec->output_count; i++)
    if (!run->outputs[i])
      return keel_fail(KD_INTERNAL, "%s did not set output %u of %s",
                       run->spec->device->name, (unsigned)i,
                       run->site->op->schema->name);
  return KD_OK;
}

static keel_status call_kernel_inside(launch *run) {
  keel_buffer *scratch = NULL;
  int64_t dim = 0;
  KEEL_TRY(take_workspace(run, &scratch, &dim));
  keel_clear_error();
  const kd_kernel_def *def = run->spec->instance->def;
  const char *op = run->site->op->schema->name, *where = run->site->where;
  uint64_t began = 0;
  if (run->spec->device->stream || keel_tracing() || run->site->ticket)
    run->view.correlation =
        keel_ticket_number(run->site->ticket, keel_trace_launch(op, where));
  if (keel_tracing()) began = keel_now();
  kd_status status = launch_enqueue(run);
  if (began) keel_trace_span(op, run->spec->device->name, where, began);
  if (status == KD_OUT_OF_MEMORY && (def->flags & KD_KERNEL_DYNAMIC_OUTPUT))
    status = enqueue_again(run);
  if (scratch) keel_buffer_release(scratch);
  if (status == KD_OK && (def->flags & KD_KERNEL_DYNAMIC_OUTPUT))
    return check_set(run);
  /* host memory holds the device's results only after the stream has completed */
  if (status == KD_OK)
    return def->host_outputs && run->spec->device->stream
               ? keel_device_drain(run->spec->device)
               : KD_OK;
  return keel_launch_failed(run->site, run->spec, status);
}

static keel_status call_kernel(launch *run) {
  keel_pool *before = keel_pool_use(run->spec->device->context->pool);
  keel_status status = call_kernel_inside(run);
  keel_pool_use(before);
  return status;
}

static void dynamic_dtypes(launch *run) {
  const keel_schema *schema = run->site->op->schema;
  for (uint32_t i = 0; i < 4 && i < run->spec->output_count; i++) {
    const keel_param *param = keel_schema_output(schema, i);
    uint64_t types = param ? param->types : 0;
    /* for dynamic ops, every type variable of the schema is bound by input 0 */
    run->dynamic_dtypes[i] = param && param->variable >= 0
                                 ? run->spec->types[0]->dtype
                             : types ? (kd_dtype)__builtin_ctzll(types)
                                     : KD_NONE;
  }
}

static keel_status launch_run_with(launch *run,
                                   const keel_type *const *out_types,
                                   const given *in) {
  KEEL_TRY(place_inputs(run, in->inputs, in->views, in->moved));
  KEEL_TRY(make_outputs(run, out_types, in));
  return call_kernel(run);
}

/* The device is entered. */
static keel_status run_inside(keel_call_site *site,
                              const keel_specialisation *spec,
                              const keel_type *const *out_types,
                              keel_tensor *const *inputs, keel_tensor **outputs,
                              uint32_t donated) {
  uint32_t n = spec->input_count, m = spec->output_count;
  kd_tensor few_views[FEW];
  keel_tensor *few_moved[FEW];
  bool few = n + m <= FEW;
  kd_tensor *views = few ? few_views : malloc((n + m) * sizeof *views);
  keel_tensor **moved = few ? few_moved : malloc((n + 1) * sizeof *moved);
  /* as above: other fields are set before they are read */
  launch run;
  run.view.struct_size = sizeof(kd_launch);
  run.view.flags = 0;
  run.view.input_count = n;
  run.view.output_count = m;
  run.view.inputs = views;
  run.view.outputs = views + n;
  run.view.workspace = (kd_tensor){0};
  run.view.node = &spec->node;
  run.view.device = spec->device->handle;
  run.view.data = spec->instance->def->data;
  run.view.correlation = 0;
  run.site = site;
  run.spec = spec;
  run.outputs = outputs;
  run.out_views = views + n;
  keel_status status =
      views && moved ? KD_OK : keel_no_memory(n * sizeof *views);
  if (status == KD_OK) {
    for (uint32_t i = 0; i < n; i++)
      moved[i] = NULL;
    if (spec->instance->def->flags & KD_KERNEL_DYNAMIC_OUTPUT)
      dynamic_dtypes(&run);
    const given in = {inputs, moved, views, donated};
    run.in = &in;
    status = launch_run_with(&run, out_types, &in);
    for (uint32_t i = 0; i < n; i++)
      keel_tensor_release(moved[i]);
  }
  for (uint32_t i = 0; status != KD_OK && i < m; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  if (!few) {
    free(views);
    free(moved);
  }
  return status;
}

keel_status keel_launch_run(keel_call_site *site,
                            const keel_specialisation *spec,
                            const keel_type *const *out_types,
                            keel_tensor *const *inputs, keel_tensor **outputs,
                            uint32_t donated) {
  KEEL_TRY(keel_device_enter(spec->device));
  keel_status status = keel_instance_ready(spec->instance);
  if (status == KD_OK)
    status = run_inside(site, spec, out_types, inputs, outputs, donated);
  keel_lost_leave(spec->device);
  return status;
}
