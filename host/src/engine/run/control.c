/* control.c - If, Loop, Scan, SequenceMap and Call, which run nested functions.
 *
 * The node's inputs are the op's own, then what each function captures, in the
 * order of the attributes (see program/function.h).
 *
 * Each of them is a series of rounds. A round runs the body; if that does not end at once,
 * the thread that ends it continues with the next round. */
#include "run/control.h"
#include "memory/access.h"

#include "memory/copy.h"
#include "memory/transfer.h"
#include "ops/chunks.h"
#include "ops/runtime.h"
#include "values/strings.h"

/* Values of one output, of all rounds. */
typedef struct collected {
  keel_tensor **items;
  uint32_t count, capacity;
} collected;

typedef struct keel_control keel_control;

/* The completion of the body's run. */
typedef struct body_end {
  keel_done done; /* must be first: cast from keel_done */
  keel_control *control;
} body_end;

/* The waiter for a condition that is copied to the host. */
typedef struct cond_waiter {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  keel_control *control;
} cond_waiter;

struct keel_control {
  keel_host_call call;
  const keel_cancellation *cancellation;
  keel_done *done;
  body_end ended;
  cond_waiter arrival;

  /* what differs from op to op */
  keel_status (*prepare)(keel_control *c); /* sets `in` for a round */
  keel_status (*take)(keel_control *c);    /* takes what is in `out` */
  keel_status (*finish)(keel_control *c);  /* sets the op's outputs */
  keel_executable *body;
  int64_t round, rounds;
  keel_tensor *cond;      /* whether there is another round; NULL: there is */
  uint32_t own;           /* inputs that are not captures */
  uint32_t states, scans; /* carried; inputs to take slices of */
  uint32_t in_count, out_count;
  keel_tensor **in, **out; /* of the body */
  collected *lists;        /* by output */
};

static keel_executable *graph_of(const keel_host_call *call, const char *name,
                                 uint32_t *out_first_capture) {
  uint32_t captures = 0, before = 0;
  keel_executable *found = NULL;
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

/* Of a value that is known. */
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

static void control_move(keel_tensor **to, keel_tensor **from) {
  keel_tensor_release(*to);
  *to = *from;
  *from = NULL;
}

static void release_all(keel_tensor **tensors, uint32_t count) {
  for (uint32_t i = 0; tensors && i < count; i++)
    keel_tensor_release(tensors[i]);
}

/* ---- rounds ------------------------------------------------------------------ */

/* Room for the body's inputs, outputs and lists. */
static keel_status control_make_room(keel_control *c) {
  c->in_count = c->body->input_count;
  c->out_count = c->body->output_count;
  c->in = calloc((size_t)c->in_count + 1, sizeof(keel_tensor *));
  c->out = calloc((size_t)c->out_count + 1, sizeof(keel_tensor *));
  c->lists = calloc((size_t)c->out_count + 1, sizeof *c->lists);
  return c->in && c->out && c->lists ? KD_OK : keel_no_memory(c->in_count);
}

static void free_control(keel_control *c) {
  release_all(c->in, c->in_count);
  release_all(c->out, c->out_count);
  for (uint32_t i = 0; c->lists && i < c->out_count; i++) {
    release_all(c->lists[i].items, c->lists[i].count);
    free(c->lists[i].items);
  }
  keel_tensor_release(c->cond);
  free(c->in);
  free(c->out);
  free(c->lists);
  free(c);
}

/* Takes output `index` into its list. */
static keel_status collect(keel_control *c, uint32_t index) {
  collected *list = &c->lists[index];
  if (list->count == list->capacity) {
    uint32_t capacity = list->capacity * 2 + 8;
    keel_tensor **items =
        realloc(list->items, capacity * sizeof(keel_tensor *));
    if (!items) return keel_no_memory(capacity * sizeof *items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = c->out[index];
  c->out[index] = NULL;
  return KD_OK;
}

/* The condition, on its way to the host. */
static keel_status set_cond(keel_control *c, keel_tensor *value) {
  keel_tensor *here = NULL;
  if (value->kind != KEEL_DATA)
    return keel_call_fail(&c->call, KD_INVALID_ARGUMENT,
                          "the condition is not a tensor");
  KEEL_TRY(keel_transfer_begin(value, NULL, &here));
  control_move(&c->cond, &here);
  return KD_OK;
}

/* The outputs of an iteration; of a partial run, also if it failed. */
static keel_status control_take(keel_control *c, keel_status status) {
  keel_status taken = c->take(c);
  return status == KD_OK ? taken : status;
}

/* As keel_control_begin. Where it returns false the control may be gone. */
static bool go_on(keel_control *c, keel_status *out_status) {
  keel_status status = KD_OK;
  while (status == KD_OK) {
    bool more = c->round < c->rounds;
    if (more && c->cond) {
      if (keel_tensor_state(c->cond) == KEEL_PENDING) {
        keel_tensor_then(c->cond, &c->arrival.waiter);
        return false;
      }
      status = to_bool(&c->call, c->cond, &more);
      if (status != KD_OK) break;
    }
    if (!more) {
      status = c->finish(c);
      break;
    }
    status = c->prepare(c);
    const keel_run_args args = {.scope = c->call.scope,
                                .inputs = c->in,
                                .outputs = c->out,
                                .input_count = c->in_count,
                                .output_count = c->out_count,
                                .cancellation = c->cancellation,
                                .partial = c->call.partial,
                                .donated = c->call.donated,
                                .held = c->call.donated ? c->in : NULL,
                                .done = &c->ended.done};
    if (status == KD_OK && !keel_executable_begin(c->body, &args, &status))
      return false;
    if (status == KD_OK || c->call.partial) status = control_take(c, status);
    c->round++;
  }
  *out_status = status;
  return true;
}

static void control_tell(keel_control *c, keel_status status) {
  keel_done *done = c->done;
  free_control(c);
  done->call(done, status);
}

static void body_ended(keel_done *done, keel_status status) {
  keel_control *c = ((body_end *)done)->control;
  if (status == KD_OK || c->call.partial) status = control_take(c, status);
  c->round++;
  if (status != KD_OK || go_on(c, &status)) control_tell(c, status);
}

static void cond_known(keel_waiter *waiter) {
  keel_control *c = ((cond_waiter *)(void *)waiter)->control;
  keel_status status = KD_OK;
  if (go_on(c, &status)) control_tell(c, status);
}

/* ---- If ---------------------------------------------------------------------- */

static keel_status prepare_branch(keel_control *c) {
  for (uint32_t i = 0; i < c->in_count; i++)
    c->in[i] = keel_tensor_retain(c->call.inputs[c->own + i]);
  return KD_OK;
}

static keel_status take_branch(keel_control *c) {
  for (uint32_t i = 0; i < c->call.output_count; i++)
    control_move(&c->call.outputs[i], &c->out[i]);
  return KD_OK;
}

static keel_status finish_branch(keel_control *c) {
  (void)c;
  return KD_OK;
}

static keel_status begin_if(keel_control *c) {
  const keel_host_call *call = &c->call;
  bool yes = false;
  if (!call->input_count || !call->inputs[0])
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "cond is missing");
  KEEL_TRY(to_bool(call, call->inputs[0], &yes));
  c->body = graph_of(call, yes ? "then_branch" : "else_branch", &c->own);
  if (!c->body || c->body->input_count != c->body->capture_count)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "a branch must have no inputs");
  if (c->body->output_count != call->output_count)
    return keel_call_fail(
        call, KD_INVALID_ARGUMENT, "a branch gives %u outputs, and the node %u",
        (unsigned)c->body->output_count, (unsigned)call->output_count);
  c->rounds = 1;
  c->prepare = prepare_branch;
  c->take = take_branch;
  c->finish = finish_branch;
  return control_make_room(c);
}

/* ---- Call -------------------------------------------------------------------- */

static keel_status begin_call(keel_control *c) {
  const keel_host_call *call = &c->call;
  c->body = graph_of(call, "body", &c->own);
  if (!c->body || c->body->input_count != call->input_count ||
      c->body->output_count != call->output_count)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the body has other inputs or outputs than the node");
  c->own = 0; /* inputs, then captures, as the branches' of an If */
  c->rounds = 1;
  c->prepare = prepare_branch;
  c->take = take_branch;
  c->finish = finish_branch;
  return control_make_room(c);
}

/* ---- what rounds give ---------------------------------------------------------- */

/* Whether equal tensors, stacked along a new axis, lie one behind the other, where their
 * device can copy them. */
static bool stacks_as_parts(const collected *list, int64_t axis) {
  if (!keel_chunks_fit(list->items, list->count)) return false;
  const keel_type *type = list->items[0]->type;
  for (uint32_t i = 1; i < list->count; i++)
    if (list->items[i]->type != type) return false;
  return axis == 0 || axis == -1 - (int64_t)type->rank;
}

static keel_status stack_parts(const collected *list, bool reverse,
                               keel_tensor **out_tensor) {
  const keel_type *type = list->items[0]->type, *wide = NULL;
  int64_t dims[KD_MAX_RANK + 1] = {list->count};
  for (uint32_t d = 0; d < type->rank; d++)
    dims[1 + d] = type->dims[d];
  KEEL_TRY(keel_type_of(type->dtype, type->rank + 1, dims, &wide));
  return keel_chunks_join(list->items, list->count, reverse, wide, out_tensor);
}

/* Stacks equal tensors along a new axis, backwards where `reverse`. */
static keel_status stack(const keel_host_call *call, const collected *list,
                         int64_t axis, bool reverse, keel_tensor **out_tensor) {
  if (stacks_as_parts(list, axis))
    return stack_parts(list, reverse, out_tensor);
  keel_tensor **views = calloc(list->count, sizeof(keel_tensor *));
  if (!views) return keel_no_memory(list->count * sizeof *views);
  const keel_type *type = list->items[0]->type, *wide = NULL;
  keel_status status = type ? keel_type_stack(type, axis, 1, &wide)
                            : keel_call_fail(call, KD_INVALID_ARGUMENT,
                                             "a scan output is not a tensor");
  for (uint32_t i = 0; i < list->count && status == KD_OK; i++) {
    keel_tensor *item = list->items[reverse ? list->count - 1 - i : i];
    keel_tensor *plain = NULL;
    if (item->type != type) {
      status = keel_call_fail(call, KD_INVALID_ARGUMENT,
                              "a scan output changes its shape");
    } else {
      status = keel_copy_rows(item, &plain);
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

static int64_t list_entry(const keel_host_call *call, const char *name,
                          uint32_t index) {
  const int64_t *values = NULL;
  int64_t count = keel_attr_ints(call->op, name, &values);
  return (int64_t)index < count ? values[index] : 0;
}

/* ---- no rounds ----------------------------------------------------------------- */

/* A body's input in the first iteration. */
static const keel_type *first_type(const keel_control *c, uint32_t index) {
  const keel_type *type = NULL;
  const keel_tensor *given = c->in[index];
  bool loop = c->call.op->schema->kind == KEEL_LOOP;
  if (loop && index == 0)
    return keel_type_of(KD_I64, 0, NULL, &type) == KD_OK ? type : NULL;
  if (!loop && index >= c->states && index < c->own)
    given = c->call.inputs[index];
  return given && keel_is_tensor(given) ? given->type : NULL;
}

/* As a declared output says, which is all that is known; open dimensions are 0. */
static keel_status declared_type(const keel_function *body, uint32_t index,
                                 const keel_type **out_type) {
  const keel_port *port = &body->output_ports[index];
  int64_t dims[KD_MAX_RANK] = {0};
  kd_dtype dtype = port->dtype == KD_NONE ? KD_F32 : port->dtype;
  uint32_t rank = port->rank <= KD_MAX_RANK ? port->rank : 0;
  for (uint32_t d = 0; d < rank; d++)
    dims[d] = port->dims[d] > 0 ? port->dims[d] : 0;
  return keel_type_of(dtype, rank, dims, out_type);
}

/* The types of a round's outputs, as a plan knows them, as its inputs would make them, or as
 * they are declared. */
static keel_status types_of_round(const keel_control *c,
                                  const keel_type **types) {
  const keel_function *body = c->body->function;
  const keel_type **inputs = calloc((size_t)c->in_count + 1, sizeof *inputs);
  keel_status status = inputs ? KD_OK : keel_no_memory(c->in_count);
  bool scan = c->call.op->schema->kind == KEEL_SCAN;
  for (uint32_t i = 0; i < c->in_count && status == KD_OK; i++) {
    inputs[i] = first_type(c, i);
    if (scan && i >= c->states && i < c->own && inputs[i])
      status = keel_type_slice(
          inputs[i], list_entry(&c->call, "scan_input_axes", i - c->states),
          &inputs[i]);
  }
  if (status == KD_OK) status = keel_function_results(body, inputs, types);
  for (uint32_t i = 0; i < c->out_count && status == KD_OK; i++) {
    const keel_type *known = body->values[body->outputs[i]].type;
    if (known && keel_type_known(known)) types[i] = known;
    if (!types[i]) status = declared_type(body, i, &types[i]);
  }
  free(inputs);
  return status;
}

/* Output `index` of the body as a scan output without a round. */
static keel_status stack_none(const keel_control *c, uint32_t index,
                              int64_t axis, keel_tensor **out_tensor) {
  const keel_type **types = calloc((size_t)c->out_count + 1, sizeof *types);
  const keel_type *wide = NULL;
  keel_status status =
      types ? types_of_round(c, types) : keel_no_memory(c->out_count);
  if (status == KD_OK) status = keel_type_stack(types[index], axis, 0, &wide);
  free(types);
  if (status == KD_OK && wide->dtype == KD_STRING)
    return keel_strings_tensor(c->call.context, wide, NULL, out_tensor);
  if (status == KD_OK)
    status = keel_tensor_create(c->call.context, wide->dtype, wide->rank,
                                wide->dims, NULL, out_tensor);
  return status;
}

/* Stacks what the rounds gave as output `index` of the body. */
static keel_status stack_list(const keel_control *c, uint32_t index,
                              int64_t axis, bool reverse,
                              keel_tensor **out_tensor) {
  const collected *list = &c->lists[index];
  return list->count ? stack(&c->call, list, axis, reverse, out_tensor)
                     : stack_none(c, index, axis, out_tensor);
}

/* Outputs the carried values, from the state that stands first in `in`. */
static void hand_out_states(keel_control *c, uint32_t first) {
  for (uint32_t k = 0; k < c->states && k < c->call.output_count; k++)
    c->call.outputs[k] = keel_tensor_retain(c->in[first + k]);
}

/* ---- Loop ------------------------------------------------------------------ */

static keel_status prepare_loop(keel_control *c) {
  keel_tensor *round = NULL;
  KEEL_TRY(
      keel_tensor_create(c->call.context, KD_I64, 0, NULL, &c->round, &round));
  control_move(&c->in[0], &round);
  return KD_OK;
}

/* The body gives the condition, what is carried, and what is collected. */
static keel_status take_loop(keel_control *c) {
  if (c->round + 1 < c->rounds) KEEL_TRY(set_cond(c, c->out[0]));
  for (uint32_t k = 0; k <= c->states; k++)
    control_move(&c->in[1 + k], &c->out[k]);
  for (uint32_t k = 1 + c->states; k < c->out_count; k++)
    KEEL_TRY(collect(c, k));
  return KD_OK;
}

static keel_status finish_loop(keel_control *c) {
  hand_out_states(c, 2);
  for (uint32_t k = c->states; k < c->call.output_count && k + 1 < c->out_count;
       k++)
    KEEL_TRY(stack_list(c, 1 + k, 0, false, &c->call.outputs[k]));
  return KD_OK;
}

/* Its body takes the number of the round, the condition, what is carried, captures. */
static keel_status begin_loop(keel_control *c) {
  const keel_host_call *call = &c->call;
  const uint8_t yes = 1;
  c->body = graph_of(call, "body", &c->own);
  if (!c->body || call->input_count < 2 || c->own < 2)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "needs M, cond and body");
  c->states = c->own - 2;
  if (c->body->input_count != c->own + c->body->capture_count ||
      c->body->output_count < 1 + c->states)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the body takes %u inputs and gives %u outputs, and"
                          " %u values are carried",
                          (unsigned)c->body->input_count,
                          (unsigned)c->body->output_count, (unsigned)c->states);
  KEEL_TRY(keel_call_int(call, 0, INT64_MAX, &c->rounds));
  c->prepare = prepare_loop;
  c->take = take_loop;
  c->finish = finish_loop;
  KEEL_TRY(control_make_room(c));
  for (uint32_t k = 2; k < c->in_count; k++)
    c->in[k] = keel_tensor_retain(call->inputs[k]);
  if (!call->inputs[1])
    return keel_tensor_create(call->context, KD_BOOL, 0, NULL, &yes, &c->in[1]);
  c->in[1] = keel_tensor_retain(call->inputs[1]);
  return set_cond(c, call->inputs[1]);
}

/* ---- Scan ------------------------------------------------------------------ */

/* A round's slice along the first axis, which lies in one piece. */
static keel_status take_piece(keel_tensor *input, int64_t at,
                              keel_tensor **out_slice) {
  const keel_type *type = input->type, *narrow = NULL;
  KEEL_TRY(keel_type_of(type->dtype, type->rank - 1, type->dims + 1, &narrow));
  return keel_chunk_take(input, (uint64_t)at * narrow->bytes, narrow,
                         out_slice);
}

/* The round's slice of a scan input along its axis, without that axis. */
static keel_status take_slice(keel_control *c, uint32_t scan,
                              keel_tensor **out_slice) {
  const keel_host_call *call = &c->call;
  int64_t axis = list_entry(call, "scan_input_axes", scan);
  bool reverse = list_entry(call, "scan_input_directions", scan) == 1;
  int64_t at = reverse ? c->rounds - 1 - c->round : c->round;
  keel_tensor *input = call->inputs[c->states + scan], *index = NULL;
  keel_attr attr = KEEL_INT("axis", axis);
  if ((axis == 0 || axis == -(int64_t)input->type->rank) &&
      keel_chunks_fit(&input, 1))
    return take_piece(input, at, out_slice);
  KEEL_TRY(keel_tensor_create(call->context, KD_I64, 0, NULL, &at, &index));
  keel_tensor *inputs[] = {input, index};
  keel_status status =
      keel_call(call->context, "Gather", &attr, 1, inputs, 2, out_slice, 1);
  keel_tensor_release(index);
  return status;
}

static keel_status prepare_scan(keel_control *c) {
  for (uint32_t k = 0; k < c->scans; k++) {
    keel_tensor *slice = NULL;
    KEEL_TRY(take_slice(c, k, &slice));
    control_move(&c->in[c->states + k], &slice);
  }
  return KD_OK;
}

static keel_status take_scan(keel_control *c) {
  for (uint32_t k = 0; k < c->states; k++)
    control_move(&c->in[k], &c->out[k]);
  for (uint32_t k = c->states; k < c->out_count; k++)
    KEEL_TRY(collect(c, k));
  return KD_OK;
}

static keel_status finish_scan(keel_control *c) {
  const keel_host_call *call = &c->call;
  hand_out_states(c, 0);
  for (uint32_t k = c->states; k < call->output_count && k < c->out_count; k++)
    KEEL_TRY(stack_list(
        c, k, list_entry(call, "scan_output_axes", k - c->states),
        list_entry(call, "scan_output_directions", k - c->states) == 1,
        &call->outputs[k]));
  return KD_OK;
}

/* The common length of the scan inputs. */
static keel_status scan_length(keel_control *c) {
  const keel_host_call *call = &c->call;
  c->rounds = -1;
  for (uint32_t k = 0; k < c->scans; k++) {
    keel_tensor *input = call->inputs[c->states + k];
    int64_t axis = list_entry(call, "scan_input_axes", k);
    const keel_type *type = input ? input->type : NULL;
    axis += axis < 0 && type ? type->rank : 0;
    if (!type || axis < 0 || axis >= (int64_t)type->rank ||
        (c->rounds >= 0 && c->rounds != type->dims[axis]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "scan input %u has no such axis, or another length",
                            (unsigned)k);
    c->rounds = type->dims[axis];
  }
  return KD_OK;
}

static keel_status begin_scan(keel_control *c) {
  const keel_host_call *call = &c->call;
  c->body = graph_of(call, "body", &c->own);
  int64_t scans = keel_attr_int(call->op, "num_scan_inputs", 0);
  if (!c->body || scans < 1 || scans > c->own)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "num_scan_inputs is %lld of %u inputs",
                          (long long)scans, (unsigned)c->own);
  c->scans = (uint32_t)scans;
  c->states = c->own - c->scans;
  if (c->body->input_count != c->own + c->body->capture_count ||
      c->body->output_count < c->states)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the body takes %u inputs and gives %u outputs",
                          (unsigned)c->body->input_count,
                          (unsigned)c->body->output_count);
  KEEL_TRY(scan_length(c));
  c->prepare = prepare_scan;
  c->take = take_scan;
  c->finish = finish_scan;
  KEEL_TRY(control_make_room(c));
  for (uint32_t k = 0; k < c->in_count; k++)
    if (k < c->states || k >= c->own)
      c->in[k] = keel_tensor_retain(call->inputs[k]);
  return KD_OK;
}

/* ---- SequenceMap ----------------------------------------------------------- */

static keel_status prepare_item(keel_control *c) {
  for (uint32_t k = 0; k < c->in_count; k++) {
    keel_tensor *input = c->call.inputs[k];
    bool sequence = input && input->kind == KEEL_SEQUENCE;
    if (sequence && c->round >= input->item_count)
      return keel_call_fail(&c->call, KD_INVALID_ARGUMENT,
                            "the sequences differ in length");
    input = keel_tensor_retain(sequence ? input->items[c->round] : input);
    control_move(&c->in[k], &input);
  }
  return KD_OK;
}

static keel_status take_item(keel_control *c) {
  for (uint32_t k = 0; k < c->out_count; k++)
    KEEL_TRY(collect(c, k));
  return KD_OK;
}

static keel_status finish_map(keel_control *c) {
  for (uint32_t k = 0; k < c->call.output_count; k++)
    KEEL_TRY(keel_sequence_create(c->call.context, c->lists[k].items,
                                  c->lists[k].count, &c->call.outputs[k]));
  return KD_OK;
}

static keel_status begin_sequence_map(keel_control *c) {
  const keel_host_call *call = &c->call;
  c->body = graph_of(call, "body", &c->own);
  if (!c->body || !call->input_count || !call->inputs[0] ||
      call->inputs[0]->kind != KEEL_SEQUENCE ||
      c->body->input_count != call->input_count ||
      c->body->output_count < call->output_count)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "needs a sequence, and a body for its items");
  c->rounds = call->inputs[0]->item_count;
  c->prepare = prepare_item;
  c->take = take_item;
  c->finish = finish_map;
  return control_make_room(c);
}

/* ---- all of them -------------------------------------------------------------- */

/* Prepares the rounds, and runs nothing. */
static keel_status control_prepare(keel_control *c) {
  switch (c->call.op->schema->kind) {
    case KEEL_IF:
      return begin_if(c);
    case KEEL_LOOP:
      return begin_loop(c);
    case KEEL_SCAN:
      return begin_scan(c);
    case KEEL_CALL:
      return begin_call(c);
    default:
      return begin_sequence_map(c);
  }
}

bool keel_control_begin(const keel_host_call *call,
                        const keel_cancellation *cancellation, keel_done *done,
                        keel_status *out_status) {
  keel_control *c = calloc(1, sizeof *c);
  if (!c) {
    *out_status = keel_no_memory(sizeof *c);
    return true;
  }
  c->call = *call;
  c->cancellation = cancellation;
  c->done = done;
  c->ended.done.call = body_ended;
  c->ended.control = c;
  c->arrival.waiter.call = cond_known;
  c->arrival.control = c;
  *out_status = control_prepare(c);
  if (*out_status == KD_OK && !go_on(c, out_status)) return false;
  free_control(c);
  return true;
}
