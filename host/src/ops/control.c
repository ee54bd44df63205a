/* control.c - If, Loop, Scan and SequenceMap: runs of nested functions.
 *
 * The node's inputs are the op's own, then what each function captures, in the
 * order of the attributes (see program/function.h). */
#include "ops/control.h"

#include "exec/plan.h"
#include "memory/copy.h"
#include "ops/runtime.h"

static keel_fplan *graph_of(const keel_host_call *call, const char *name,
                            uint32_t *out_first_capture) {
  uint32_t captures = 0, before = 0;
  keel_fplan *found = NULL;
  for (uint32_t i = 0; i < call->op->attr_count; i++) {
    if (!call->graphs || !call->graphs[i]) continue;
    if (!strcmp(call->op->attrs[i].value.name, name)) {
      found = call->graphs[i];
      before = captures;
    }
    captures += call->graphs[i]->capture_count;
  }
  *out_first_capture = call->input_count - captures + before;
  return found;
}

static keel_status to_bool(const keel_host_call *call, keel_tensor *value,
                           bool *out_bool) {
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(value, &here));
  bool fits = here->type->dtype == KD_BOOL && here->type->elements == 1;
  if (fits) *out_bool = *(const uint8_t *)here->data != 0;
  keel_tensor_release(here);
  return fits ? KD_OK
              : keel_call_fail(call, KD_INVALID_ARGUMENT,
                               "the condition is not one bool");
}

static void release_all(keel_tensor **tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(tensors[i]);
}

keel_status keel_run_if(keel_host_call *call) {
  bool yes = false;
  uint32_t first = 0;
  if (!call->input_count || !call->inputs[0])
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "cond is missing");
  KEEL_TRY(to_bool(call, call->inputs[0], &yes));
  keel_fplan *branch =
      graph_of(call, yes ? "then_branch" : "else_branch", &first);
  if (!branch || branch->input_count != branch->capture_count)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "a branch must have no inputs");
  return keel_fplan_run(branch, call->scope, call->inputs + first,
                        branch->capture_count, call->outputs,
                        call->output_count);
}

/* ---- collecting what each iteration gives --------------------------------- */

typedef struct collected {
  keel_tensor **items;
  uint32_t count, room;
} collected;

static keel_status collect(collected *list, keel_tensor *item) {
  if (list->count == list->room) {
    uint32_t room = list->room * 2 + 8;
    keel_tensor **items = realloc(list->items, room * sizeof(keel_tensor *));
    if (!items) return keel_no_memory(room * sizeof *items);
    list->items = items;
    list->room = room;
  }
  list->items[list->count++] = keel_tensor_retain(item);
  return KD_OK;
}

static void drop_collected(collected *lists, uint32_t count) {
  for (uint32_t i = 0; lists && i < count; i++) {
    release_all(lists[i].items, lists[i].count);
    free(lists[i].items);
  }
  free(lists);
}

/* Stacks equal tensors along a new axis, backwards where `reverse`. */
static keel_status stack(keel_host_call *call, const collected *list,
                         int64_t axis, bool reverse, keel_tensor **out_tensor) {
  if (!list->count) /* nothing tells the type of an empty result */
    return keel_tensor_create(call->context, KD_F32, 1, (const int64_t[]){0},
                              NULL, out_tensor);
  keel_tensor **views = calloc(list->count, sizeof(keel_tensor *));
  if (!views) return keel_no_memory(list->count * sizeof *views);
  const keel_type *type = list->items[0]->type, *wide = NULL;
  int64_t dims[KD_MAX_RANK + 1];
  keel_status status = KD_OK;
  if (!type)
    status =
        keel_call_fail(call, KD_INVALID_ARGUMENT, "a scan output is no tensor");
  axis += axis < 0 && type ? type->rank + 1 : 0;
  if (status == KD_OK && (axis < 0 || axis > (int64_t)type->rank))
    status = keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "a scan output's axis is out of range");
  if (status == KD_OK) {
    for (uint32_t d = 0, from = 0; d <= type->rank; d++)
      dims[d] = d == (uint32_t)axis ? 1 : type->dims[from++];
    status = keel_type_of(type->dtype, type->rank + 1, dims, &wide);
  }
  for (uint32_t i = 0; i < list->count && status == KD_OK; i++) {
    keel_tensor *item = list->items[reverse ? list->count - 1 - i : i];
    keel_tensor *plain = NULL;
    if (item->type != type) {
      status = keel_call_fail(call, KD_INVALID_ARGUMENT,
                              "a scan output changes its shape");
    } else {
      status = keel_copy_layout(item, KD_LAYOUT_ROW_MAJOR, &plain);
      if (status == KD_OK) status = keel_tensor_view(plain, wide, &views[i]);
      keel_tensor_release(plain);
    }
  }
  keel_attr attr = KEEL_INT("axis", axis);
  if (status == KD_OK)
    status = keel_call(call->context, "Concat", &attr, 1, views, list->count,
                       out_tensor, 1);
  release_all(views, list->count);
  free(views);
  return status;
}

/* ---- Loop ------------------------------------------------------------------ */

typedef struct loop_state {
  keel_fplan *body;
  uint32_t carried, scans;
  keel_tensor **in;  /* iteration, cond, carried, captures */
  keel_tensor **out; /* cond, carried, scans */
  collected *lists;
} loop_state;

static keel_status loop_step(keel_host_call *call, loop_state *loop, int64_t i,
                             bool *go_on) {
  keel_fplan *body = loop->body;
  keel_tensor_release(loop->in[0]);
  loop->in[0] = NULL;
  KEEL_TRY(
      keel_tensor_create(call->context, KD_I64, 0, NULL, &i, &loop->in[0]));
  KEEL_TRY(keel_fplan_run(body, call->scope, loop->in, body->input_count,
                          loop->out, body->output_count));
  keel_status status = to_bool(call, loop->out[0], go_on);
  keel_tensor_release(loop->in[1]);
  loop->in[1] = loop->out[0];
  loop->out[0] = NULL;
  for (uint32_t k = 0; k < loop->carried; k++) {
    keel_tensor_release(loop->in[2 + k]);
    loop->in[2 + k] = loop->out[1 + k];
    loop->out[1 + k] = NULL;
  }
  for (uint32_t k = 0; k < loop->scans; k++) {
    keel_tensor **item = &loop->out[1 + loop->carried + k];
    if (status == KD_OK) status = collect(&loop->lists[k], *item);
    keel_tensor_release(*item);
    *item = NULL;
  }
  return status;
}

static keel_status loop_all(keel_host_call *call, loop_state *loop,
                            int64_t most, bool go_on) {
  for (int64_t i = 0; i < most && go_on; i++)
    KEEL_TRY(loop_step(call, loop, i, &go_on));
  for (uint32_t k = 0; k < loop->carried && k < call->output_count; k++)
    call->outputs[k] = keel_tensor_retain(loop->in[2 + k]);
  for (uint32_t k = 0; k < loop->scans; k++)
    if (loop->carried + k < call->output_count)
      KEEL_TRY(stack(call, &loop->lists[k], 0, false,
                     &call->outputs[loop->carried + k]));
  return KD_OK;
}

keel_status keel_run_loop(keel_host_call *call) {
  uint32_t first = 0;
  loop_state loop = {.body = graph_of(call, "body", &first)};
  int64_t most = INT64_MAX;
  bool go_on = true;
  if (!loop.body || call->input_count < 2 || first < 2)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "needs M, cond and body");
  loop.carried = first - 2;
  uint32_t n = loop.body->input_count, m = loop.body->output_count;
  if (n != first + loop.body->capture_count || m < 1 + loop.carried)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the body takes %u inputs and gives %u outputs, and"
                          " %u values are carried",
                          (unsigned)n, (unsigned)m, (unsigned)loop.carried);
  loop.scans = m - 1 - loop.carried;
  KEEL_TRY(keel_call_int(call, 0, INT64_MAX, &most));
  if (call->inputs[1]) KEEL_TRY(to_bool(call, call->inputs[1], &go_on));
  loop.in = calloc(n + 1, sizeof(keel_tensor *));
  loop.out = calloc(m + 1, sizeof(keel_tensor *));
  loop.lists = calloc(loop.scans + 1, sizeof *loop.lists);
  keel_status status =
      loop.in && loop.out && loop.lists ? KD_OK : keel_no_memory(n);
  if (status == KD_OK) {
    for (uint32_t k = 2; k < n; k++)
      loop.in[k] = keel_tensor_retain(call->inputs[k]);
    uint8_t yes = go_on;
    status =
        keel_tensor_create(call->context, KD_BOOL, 0, NULL, &yes, &loop.in[1]);
  }
  if (status == KD_OK) status = loop_all(call, &loop, most, go_on);
  if (loop.in) release_all(loop.in, n);
  drop_collected(loop.lists, loop.scans);
  free(loop.in);
  free(loop.out);
  return status;
}

/* ---- Scan ------------------------------------------------------------------ */

typedef struct scan_state {
  keel_fplan *body;
  uint32_t states, scans, results; /* results: scan outputs */
  int64_t length;
  keel_tensor **in, **out;
  collected *lists;
} scan_state;

static int64_t list_entry(const keel_host_call *call, const char *name,
                          uint32_t index) {
  const int64_t *values = NULL;
  int64_t count = keel_attr_ints(call->op, name, &values);
  return (int64_t)index < count ? values[index] : 0;
}

/* Slice i of a scan input along its axis, without that axis. */
static keel_status take_slice(keel_host_call *call, uint32_t scan,
                              uint32_t input, int64_t i, int64_t length,
                              keel_tensor **out_slice) {
  int64_t axis = list_entry(call, "scan_input_axes", scan);
  bool reverse = list_entry(call, "scan_input_directions", scan) == 1;
  int64_t at = reverse ? length - 1 - i : i;
  keel_tensor *index = NULL;
  keel_attr attr = KEEL_INT("axis", axis);
  KEEL_TRY(keel_tensor_create(call->context, KD_I64, 0, NULL, &at, &index));
  keel_tensor *inputs[] = {call->inputs[input], index};
  keel_status status =
      keel_call(call->context, "Gather", &attr, 1, inputs, 2, out_slice, 1);
  keel_tensor_release(index);
  return status;
}

static keel_status scan_step(keel_host_call *call, scan_state *scan,
                             int64_t i) {
  keel_fplan *body = scan->body;
  for (uint32_t k = 0; k < scan->scans; k++) {
    keel_tensor **slot = &scan->in[scan->states + k];
    keel_tensor_release(*slot);
    *slot = NULL;
    KEEL_TRY(take_slice(call, k, scan->states + k, i, scan->length, slot));
  }
  KEEL_TRY(keel_fplan_run(body, call->scope, scan->in, body->input_count,
                          scan->out, body->output_count));
  keel_status status = KD_OK;
  for (uint32_t k = 0; k < body->output_count; k++) {
    if (k < scan->states) {
      keel_tensor_release(scan->in[k]);
      scan->in[k] = scan->out[k];
    } else {
      if (status == KD_OK)
        status = collect(&scan->lists[k - scan->states], scan->out[k]);
      keel_tensor_release(scan->out[k]);
    }
    scan->out[k] = NULL;
  }
  return status;
}

static keel_status scan_all(keel_host_call *call, scan_state *scan) {
  for (int64_t i = 0; i < scan->length; i++)
    KEEL_TRY(scan_step(call, scan, i));
  for (uint32_t k = 0; k < scan->states && k < call->output_count; k++)
    call->outputs[k] = keel_tensor_retain(scan->in[k]);
  for (uint32_t k = 0; k < scan->results; k++)
    if (scan->states + k < call->output_count)
      KEEL_TRY(stack(call, &scan->lists[k],
                     list_entry(call, "scan_output_axes", k),
                     list_entry(call, "scan_output_directions", k) == 1,
                     &call->outputs[scan->states + k]));
  return KD_OK;
}

/* The common length of the scan inputs. */
static keel_status scan_length(keel_host_call *call, scan_state *scan) {
  scan->length = -1;
  for (uint32_t k = 0; k < scan->scans; k++) {
    keel_tensor *input = call->inputs[scan->states + k];
    int64_t axis = list_entry(call, "scan_input_axes", k);
    const keel_type *type = input ? input->type : NULL;
    axis += axis < 0 && type ? type->rank : 0;
    if (!type || axis < 0 || axis >= (int64_t)type->rank ||
        (scan->length >= 0 && scan->length != type->dims[axis]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "scan input %u has no such axis, or another length",
                            (unsigned)k);
    scan->length = type->dims[axis];
  }
  return KD_OK;
}

keel_status keel_run_scan(keel_host_call *call) {
  uint32_t first = 0;
  scan_state scan = {.body = graph_of(call, "body", &first)};
  int64_t scans = keel_attr_int(call->op, "num_scan_inputs", 0);
  if (!scan.body || scans < 1 || scans > first)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "num_scan_inputs is %lld of %u inputs",
                          (long long)scans, (unsigned)first);
  scan.scans = (uint32_t)scans;
  scan.states = first - scan.scans;
  uint32_t n = scan.body->input_count, m = scan.body->output_count;
  if (n != first + scan.body->capture_count || m < scan.states)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the body takes %u inputs and gives %u outputs",
                          (unsigned)n, (unsigned)m);
  scan.results = m - scan.states;
  KEEL_TRY(scan_length(call, &scan));
  scan.in = calloc(n + 1, sizeof(keel_tensor *));
  scan.out = calloc(m + 1, sizeof(keel_tensor *));
  scan.lists = calloc(scan.results + 1, sizeof *scan.lists);
  keel_status status =
      scan.in && scan.out && scan.lists ? KD_OK : keel_no_memory(n);
  if (status == KD_OK) {
    for (uint32_t k = 0; k < n; k++)
      if (k < scan.states || k >= first)
        scan.in[k] = keel_tensor_retain(call->inputs[k]);
    status = scan_all(call, &scan);
  }
  if (scan.in) release_all(scan.in, n);
  drop_collected(scan.lists, scan.results);
  free(scan.in);
  free(scan.out);
  return status;
}

/* ---- SequenceMap ----------------------------------------------------------- */

static keel_status map_item(keel_host_call *call, keel_fplan *body, uint32_t i,
                            keel_tensor **in, keel_tensor **out,
                            collected *lists) {
  for (uint32_t k = 0; k < body->input_count; k++) {
    keel_tensor *input = call->inputs[k];
    bool sequence = input && input->kind == KEEL_SEQUENCE;
    if (sequence && i >= input->item_count)
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "the sequences differ in length");
    in[k] = sequence ? input->items[i] : input;
  }
  KEEL_TRY(keel_fplan_run(body, call->scope, in, body->input_count, out,
                          body->output_count));
  keel_status status = KD_OK;
  for (uint32_t k = 0; k < body->output_count; k++) {
    if (status == KD_OK) status = collect(&lists[k], out[k]);
    keel_tensor_release(out[k]);
  }
  return status;
}

keel_status keel_run_sequence_map(keel_host_call *call) {
  uint32_t first = 0;
  keel_fplan *body = graph_of(call, "body", &first);
  if (!body || !call->input_count || !call->inputs[0] ||
      call->inputs[0]->kind != KEEL_SEQUENCE ||
      body->input_count != call->input_count ||
      body->output_count < call->output_count)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "needs a sequence, and a body for its items");
  uint32_t n = body->input_count, m = body->output_count;
  keel_tensor **in = calloc(n + 1, sizeof(keel_tensor *));
  keel_tensor **out = calloc(m + 1, sizeof(keel_tensor *));
  collected *lists = calloc(m + 1, sizeof *lists);
  keel_status status = in && out && lists ? KD_OK : keel_no_memory(n);
  for (uint32_t i = 0; status == KD_OK && i < call->inputs[0]->item_count; i++)
    status = map_item(call, body, i, in, out, lists);
  for (uint32_t k = 0; status == KD_OK && k < call->output_count; k++)
    status = keel_sequence_create(call->context, lists[k].items, lists[k].count,
                                  &call->outputs[k]);
  drop_collected(lists, m);
  free(in);
  free(out);
  return status;
}
