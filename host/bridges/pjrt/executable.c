/* executable.c - programs: compiled for a device, and run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- making one ---------------------------------------------------------------------- */

static void executable_drop(pjrt_executable *made) {
  if (!made || atomic_fetch_sub(&made->refs, 1) != 1) return;
  for (uint32_t i = 0; made->plans && i < made->device_count; i++)
    keel_plan_release(made->plans[i]);
  keel_group_release(made->group);
  keel_program_release(made->program);
  free(made->plans);
  free(made->devices);
  free(made->assignment);
  free(made->text);
  free(made->types);
  free(made->ranks);
  free(made->dims);
  free(made->kinds);
  free(made->kind_sizes);
  free(made->donated);
  free(made);
}

/* What its outputs are, which JAX asks before they are there. */
static pjrt_error *read_outputs(pjrt_executable *made) {
  size_t n = (size_t)made->output_count + 1, at = 0;
  made->types = calloc(n, sizeof *made->types);
  made->ranks = calloc(n, sizeof *made->ranks);
  made->dims = calloc(n, KD_MAX_RANK * sizeof *made->dims);
  made->kinds = calloc(n, sizeof(char *));
  made->kind_sizes = calloc(n, sizeof *made->kind_sizes);
  if (!made->types || !made->ranks || !made->dims || !made->kinds ||
      !made->kind_sizes)
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  for (uint32_t i = 0; i < made->output_count; i++) {
    keel_port port;
    PJRT_TRY(keel_program_output(made->program, i, &port));
    bool known = pjrt_type(port.dtype) && port.rank != KEEL_RANK_UNKNOWN;
    for (uint32_t k = 0; known && k < port.rank; k++)
      known = port.dims[k] >= 0;
    if (!known)
      return pjrt_fail_text(KD_UNIMPLEMENTED,
                            "output %u of the program has a type or sizes that"
                            " are known in a run only",
                            (unsigned)i);
    made->types[i] = pjrt_type(port.dtype);
    made->ranks[i] = port.rank;
    for (uint32_t k = 0; k < port.rank; k++)
      made->dims[at++] = port.dims[k];
    made->kinds[i] = "device";
    made->kind_sizes[i] = 6;
  }
  return NULL;
}

/* The inputs that JAX was told to donate. */
static pjrt_error *read_inputs(pjrt_executable *made) {
  made->donated = calloc((size_t)made->input_count + 1, sizeof *made->donated);
  if (!made->donated)
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  for (uint32_t i = 0; i < made->input_count; i++) {
    keel_port port;
    PJRT_TRY(keel_program_input(made->program, i, &port));
    if (port.flags & KEEL_PORT_DONATED)
      made->donated[made->donated_count++] = i;
  }
  return NULL;
}

static char *put_varint(char *at, size_t number) {
  for (; number > 127; number >>= 7)
    *at++ = (char)((number & 0x7f) | 0x80);
  *at++ = (char)number;
  return at;
}

/* A DeviceAssignmentProto of one replica: 1: 1, 2: partitions, 3: {1: [id]} for each. */
static bool write_assignment(pjrt_executable *made) {
  char *at = made->assignment = malloc(16 + 8 * (size_t)made->device_count);
  if (!at) return false;
  *at++ = 0x08;
  *at++ = 1;
  *at++ = 0x10;
  at = put_varint(at, made->device_count);
  for (uint32_t i = 0; i < made->device_count; i++) {
    size_t id = (size_t)made->devices[i]->description.id,
           size = id < 128 ? 1 : 2;
    *at++ = 0x1a;
    at = put_varint(at, size + 2);
    *at++ = 0x0a;
    at = put_varint(at, size);
    at = put_varint(at, id);
  }
  made->assignment_size = (size_t)(at - made->assignment);
  return true;
}

static bool is_nothing(const keel_program *program) {
  keel_port port;
  return keel_program_output_count(program) == 1 &&
         keel_program_output(program, 0, &port) == KD_OK &&
         !strcmp(port.name, "keel.nothing");
}

/* Programs of few ops end before another thread has begun. */
#define BRIEF 64

static void write_fingerprint(pjrt_executable *made, const char *bytes,
                              size_t size) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  for (uint32_t i = 1; i < made->device_count; i++)
    hash = (hash ^ (uint64_t)made->devices[i]->description.id) *
           UINT64_C(0x100000001b3);
  snprintf(made->fingerprint, sizeof made->fingerprint, "%016llx-%d",
           (unsigned long long)hash, made->devices[0]->description.id);
}

/* Whether its last input is the handle of the group's member. */
static bool takes_member(const keel_program *program) {
  uint32_t count = keel_program_input_count(program);
  keel_port port;
  return count && keel_program_input(program, count - 1, &port) == KD_OK &&
         (port.flags & KEEL_PORT_RESOURCE) && !strcmp(port.name, "keel.member");
}

static pjrt_error *make_group(pjrt_executable *made) {
  keel_device **devices = calloc(made->device_count, sizeof(keel_device *));
  if (!devices)
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  for (uint32_t i = 0; i < made->device_count; i++)
    devices[i] = made->devices[i]->device;
  keel_status status =
      keel_group_create(devices, made->device_count, &made->group);
  free(devices);
  return pjrt_fail(status);
}

static pjrt_error *make_plans(pjrt_executable *made) {
  for (uint32_t i = 0; i < made->device_count; i++) {
    const keel_plan_params params = {.struct_size = sizeof params,
                                     .device = made->devices[i]->device};
    PJRT_TRY(keel_plan_create(made->program, &params, &made->plans[i]));
  }
  return NULL;
}

static pjrt_error *executable_load(pjrt_executable *made, const char *bytes,
                                   size_t size) {
  keel_context *context = made->devices[0]->client->context;
  write_fingerprint(made, bytes, size);
  if (!write_assignment(made))
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  PJRT_TRY(keel_program_load_memory(context, PJRT_PROGRAM, bytes, size,
                                    &made->program));
  bool exchanges = takes_member(made->program);
  made->input_count = keel_program_input_count(made->program) - exchanges;
  made->made_count = keel_program_output_count(made->program);
  made->output_count = is_nothing(made->program) ? 0 : made->made_count;
  made->brief = !exchanges && made->device_count == 1 &&
                keel_program_op_count(made->program) <= BRIEF;
  pjrt_error *error = read_outputs(made);
  if (!error) error = read_inputs(made);
  if (!error && exchanges) error = make_group(made);
  if (error) return error;
  if (made->device_count > 1 && !(made->text = pjrt_program_text(made)))
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  return make_plans(made);
}

pjrt_error *pjrt_executable_make(pjrt_device *const *devices, uint32_t count,
                                 const char *bytes, size_t size,
                                 pjrt_executable **out_made) {
  pjrt_executable *made = calloc(1, sizeof *made);
  *out_made = NULL;
  if (!made) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  atomic_init(&made->refs, 1);
  made->device_count = count;
  made->devices = calloc(count, sizeof(pjrt_device *));
  made->plans = calloc(count, sizeof(keel_plan *));
  pjrt_error *error = NULL;
  if (made->devices && made->plans) {
    memcpy(made->devices, devices, count * sizeof(pjrt_device *));
    error = executable_load(made, bytes, size);
  } else {
    error = pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  }
  if (error)
    executable_drop(made);
  else
    *out_made = made;
  return error;
}

static pjrt_error *executable_choose(const pjrt_client *client,
                                     const pjrt_choice *choice,
                                     pjrt_device **devices,
                                     uint32_t *out_count) {
  if (choice->replicas > 1)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "a program over %lld replicas: Keel's PJRT plugin"
                          " runs one replica, of as many partitions as there"
                          " are devices (jax.shard_map, and pmap of JAX 0.8"
                          " and later)",
                          (long long)choice->replicas);
  int64_t count = choice->partitions > 1 ? choice->partitions : 1;
  if (count != choice->id_count || count > PJRT_DEVICES_MOST)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "a program over %lld partitions names %u devices",
                          (long long)count, (unsigned)choice->id_count);
  for (uint32_t i = 0; i < choice->id_count; i++) {
    int64_t id = choice->ids[i];
    if (id < 0 || id >= (int64_t)client->count)
      return pjrt_fail_text(KD_INVALID_ARGUMENT,
                            "there is no device %lld; Keel has %u",
                            (long long)id, (unsigned)client->count);
    devices[i] = &client->devices[id];
  }
  *out_count = choice->id_count;
  return NULL;
}

pjrt_error *pjrt_choose(const pjrt_client *client, const char *options,
                        size_t size, pjrt_device **devices,
                        uint32_t *out_count) {
  pjrt_choice *choice = malloc(sizeof *choice);
  if (!choice) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
  pjrt_error *error =
      pjrt_read_options(options, size, choice)
          ? executable_choose(client, choice, devices, out_count)
          : pjrt_fail_text(KD_INVALID_ARGUMENT,
                           "the compile options are damaged");
  free(choice);
  return error;
}

pjrt_error *pjrt_Client_Compile(Client_Compile_args *args) {
  const pjrt_program *program = args->program;
  pjrt_device *devices[PJRT_DEVICES_MOST];
  uint32_t count = 0;
  if (program->format_size != 4 || memcmp(program->format, "mlir", 4) != 0)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "a program in the form \"%.*s\"; Keel reads"
                          " StableHLO (\"mlir\")",
                          (int)program->format_size, program->format);
  pjrt_error *error = pjrt_choose(args->object, args->options,
                                  args->option_size, devices, &count);
  return error ? error
               : pjrt_executable_make(devices, count, program->code,
                                      program->code_size, &args->result);
}

/* ---- what it is ---------------------------------------------------------------------- */

pjrt_error *pjrt_Executable_Destroy(Executable_Destroy_args *args) {
  executable_drop(args->object);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_Destroy(LoadedExecutable_Destroy_args *args) {
  executable_drop(args->object);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_GetExecutable(
    LoadedExecutable_GetExecutable_args *args) {
  atomic_fetch_add(&args->object->refs, 1);
  args->result = args->object;
  return NULL;
}

PJRT_GIVES_TEXT(Executable_Name, PJRT_PROGRAM)
PJRT_GIVES(Executable_NumReplicas, 1)
PJRT_GIVES(Executable_NumPartitions, args->object->device_count)
PJRT_GIVES(Executable_NumOutputs, args->object->output_count)

pjrt_error *pjrt_Executable_SizeOfGeneratedCodeInBytes(
    Executable_SizeOfGeneratedCodeInBytes_args *args) {
  uint64_t size = 0;
  keel_program_regions(args->object->program, NULL, &size, NULL);
  args->result = (int64_t)size;
  return NULL;
}

pjrt_error *pjrt_Executable_OutputMemoryKinds(
    Executable_OutputMemoryKinds_args *args) {
  args->count = args->object->output_count;
  args->kinds = args->object->kinds;
  args->kind_sizes = args->object->kind_sizes;
  return NULL;
}

pjrt_error *pjrt_Executable_OutputElementTypes(
    Executable_OutputElementTypes_args *args) {
  args->types = args->object->types;
  args->count = args->object->output_count;
  return NULL;
}

pjrt_error *pjrt_Executable_OutputDimensions(
    Executable_OutputDimensions_args *args) {
  args->count = args->object->output_count;
  args->dims = args->object->dims;
  args->ranks = args->object->ranks;
  return NULL;
}

PJRT_GIVES_TEXT(Executable_Fingerprint, args->object->fingerprint)
PJRT_GIVES_TEXT(LoadedExecutable_Fingerprint, args->object->fingerprint)
PJRT_GIVES_LIST(LoadedExecutable_AddressableDevices, args->object->devices,
                args->object->device_count)

/* JAX reads how ports are split of it: of a program of several devices alone. The first call
 * asks for the size. */
pjrt_error *pjrt_Executable_OptimizedProgram(
    Executable_OptimizedProgram_args *args) {
  const char *text = args->object->text;
  if (!text)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "Keel's programs are not shown as HLO");
  size_t size = strlen(text);
  if (args->program->code && args->program->code_size >= size)
    memcpy(args->program->code, text, size);
  args->program->code_size = size;
  args->program->format = "mlir";
  args->program->format_size = 4;
  return NULL;
}

static void executable_keep(pjrt_bytes *keeper) {
  (void)keeper; /* the executable has the bytes */
}

pjrt_error *pjrt_LoadedExecutable_GetDeviceAssignment(
    LoadedExecutable_GetDeviceAssignment_args *args) {
  args->bytes = args->object->assignment;
  args->size = args->object->assignment_size;
  args->keeper = NULL;
  args->drop = executable_keep;
  return NULL;
}

/* The plan stays until the executable goes: another thread may be running it. */
pjrt_error *pjrt_LoadedExecutable_Delete(LoadedExecutable_Delete_args *args) {
  atomic_store(&args->object->deleted, true);
  return NULL;
}

PJRT_GIVES(LoadedExecutable_IsDeleted, atomic_load(&args->object->deleted))

/* ---- running ------------------------------------------------------------------------- */

#define FEW 32 /* arguments and results that need no memory of their own */

static void release_all(keel_tensor **tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    keel_tensor_release(tensors[i]);
}

/* Values of the arguments, retained. */
static pjrt_error *executable_gather(const pjrt_executable *made,
                                     pjrt_buffer *const *buffers, size_t count,
                                     keel_tensor **inputs, bool *pending) {
  if (count != made->input_count)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "the program takes %u buffers, and gets %zu",
                          (unsigned)made->input_count, count);
  *pending = false;
  for (size_t i = 0; i < count; i++) {
    inputs[i] = pjrt_buffer_take(buffers[i]);
    if (!inputs[i])
      return pjrt_fail_text(KD_FAILED_PRECONDITION,
                            "argument %zu has been deleted or donated", i);
    *pending |= keel_tensor_query(inputs[i]) == KD_BUSY;
  }
  return NULL;
}

/* Buffers of the results, which it takes over: all, or none. */
static pjrt_error *hand_out(const pjrt_executable *made, uint32_t device,
                            keel_tensor **results, pjrt_buffer **outputs) {
  const int64_t *dims = made->dims;
  for (uint32_t i = 0; i < made->output_count; i++) {
    pjrt_error *error =
        pjrt_buffer_make(made->devices[device], results[i], made->types[i],
                         made->ranks[i], dims, &outputs[i]);
    dims += made->ranks[i];
    if (!error) continue;
    release_all(results + i + 1, made->output_count - i - 1);
    while (i-- > 0)
      pjrt_Buffer_Destroy(&(Buffer_Destroy_args){.object = outputs[i]});
    return error;
  }
  release_all(results + made->output_count,
              made->made_count - made->output_count);
  return NULL;
}

static bool is_kept(const pjrt_execute_options *options, uint32_t input) {
  for (size_t i = 0; options && i < options->kept_count; i++)
    if (options->kept[i] == (int64_t)input) return true;
  return false;
}

/* Takes back what has been donated so far. */
static void undo(pjrt_buffer *const *buffers, keel_tensor *const *inputs,
                 const uint32_t *donated, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    pjrt_buffer_put_back(buffers[donated[i]],
                         keel_tensor_retain(inputs[donated[i]]));
}

/* Deletes the buffers that are donated in this run: which, of room for all that the program
 * donates. All, or none. */
static pjrt_error *donate(const pjrt_executable *made,
                          const pjrt_execute_options *options,
                          pjrt_buffer *const *buffers,
                          keel_tensor *const *inputs, uint32_t *donated,
                          uint32_t *out_count) {
  *out_count = 0;
  for (uint32_t i = 0; i < made->donated_count; i++) {
    uint32_t input = made->donated[i];
    if (is_kept(options, input)) continue;
    if (!pjrt_buffer_give(buffers[input], inputs[input])) {
      undo(buffers, inputs, donated, *out_count);
      return pjrt_fail_text(KD_INVALID_ARGUMENT,
                            "argument %u is donated, and its buffer has been"
                            " donated or deleted already: pass it once",
                            (unsigned)input);
    }
    keel_tensor_release(inputs[input]); /* the buffer's reference is left */
    donated[(*out_count)++] = input;
  }
  return NULL;
}

/* What is donated is gone afterwards, and NULL in `inputs`. */
static pjrt_error *executable_run(const pjrt_executable *made, uint32_t device,
                                  keel_tensor **inputs, const uint32_t *donated,
                                  uint32_t count, bool pending,
                                  keel_tensor **results) {
  uint32_t n = made->input_count + (made->group != NULL);
  const keel_run_params params = {.struct_size = sizeof params,
                                  .flags = KEEL_RUN_WHOLE | KEEL_RUN_ENQUEUES,
                                  .donated = donated,
                                  .donated_count = count};
  keel_status status =
      made->brief && !pending
          ? keel_plan_run_with(made->plans[device], &params, inputs, n, results,
                               made->made_count)
          : keel_plan_begin(made->plans[device], &params, inputs, n, results,
                            made->made_count);
  for (uint32_t i = 0; i < count; i++)
    inputs[donated[i]] = NULL;
  return pjrt_fail(status);
}

/* Buffers of the results, which it takes over, and the event of the run's end. */
static pjrt_error *give_results(const pjrt_executable *made, uint32_t device,
                                keel_tensor **results,
                                LoadedExecutable_Execute_args *args) {
  pjrt_event *done = NULL;
  if (args->done) {
    done = pjrt_event_of(results, made->made_count);
    if (!done) {
      release_all(results, made->made_count);
      return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for an event");
    }
  }
  pjrt_error *error = hand_out(made, device, results, args->outputs[device]);
  if (error && done)
    pjrt_Event_Destroy(&(Event_Destroy_args){.object = done});
  else if (done)
    args->done[device] = done;
  return error;
}

/* values: room for inputs, the member and results. */
static pjrt_error *execute_on(const pjrt_executable *made, uint32_t device,
                              keel_tensor *member, keel_tensor **values,
                              uint32_t *donated,
                              LoadedExecutable_Execute_args *args) {
  pjrt_buffer *const *buffers = args->inputs[device];
  keel_tensor **results = values + made->input_count + 1;
  bool pending = false;
  uint32_t count = 0;
  memset(values, 0, (made->input_count + 1) * sizeof *values);
  pjrt_error *error =
      executable_gather(made, buffers, args->input_count, values, &pending);
  if (!error && made->donated_count)
    error = donate(made, args->options, buffers, values, donated, &count);
  values[made->input_count] = member;
  if (!error)
    error =
        executable_run(made, device, values, donated, count, pending, results);
  release_all(values, made->input_count);
  return error ? error : give_results(made, device, results, args);
}

/* Takes back the results of the devices that have begun. */
static void undo_results(const pjrt_executable *made, uint32_t devices,
                         LoadedExecutable_Execute_args *args) {
  for (uint32_t i = 0; i < devices; i++) {
    for (uint32_t k = 0; k < made->output_count; k++)
      pjrt_Buffer_Destroy(
          &(Buffer_Destroy_args){.object = args->outputs[i][k]});
    if (args->done)
      pjrt_Event_Destroy(&(Event_Destroy_args){.object = args->done[i]});
  }
}

/* Runs of all devices are under way at once. One that can't begin leaves the group, so that
 * the others do not wait for it. */
static pjrt_error *execute(const pjrt_executable *made, keel_tensor **values,
                           uint32_t *donated,
                           LoadedExecutable_Execute_args *args) {
  uint32_t n = made->device_count, begun = 0;
  keel_tensor *one = NULL,
              **members = n > 1 ? calloc(n, sizeof *members) : &one;
  if (!members) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a run");
  pjrt_error *error =
      made->group ? pjrt_fail(keel_group_members(made->group, members)) : NULL;
  while (!error && begun < n) {
    error = execute_on(made, begun, members[begun], values, donated, args);
    begun += !error;
  }
  release_all(members, n);
  if (error) undo_results(made, begun, args);
  if (members != &one) free(members);
  return error;
}

pjrt_error *pjrt_LoadedExecutable_Execute(LoadedExecutable_Execute_args *args) {
  const pjrt_executable *made = args->object;
  keel_tensor *few[FEW] = {NULL}, **values = few;
  uint32_t few_donated[FEW], *donated = few_donated;
  size_t capacity = (size_t)made->input_count + 1 + made->made_count;
  if (args->device_count != made->device_count)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "a run on %zu devices of a program of %u",
                          args->device_count, (unsigned)made->device_count);
  if (atomic_load(&args->object->deleted))
    return pjrt_fail_text(KD_FAILED_PRECONDITION,
                          "the program has been deleted");
  if (capacity > FEW) {
    values = calloc(capacity, sizeof(keel_tensor *));
    donated = calloc(capacity, sizeof *donated);
  }
  pjrt_error *error = values && donated ? execute(made, values, donated, args)
                                        : pjrt_fail_text(KD_OUT_OF_MEMORY,
                                                         "no memory for a run");
  if (values != few) free(values);
  if (donated != few_donated) free(donated);
  return error;
}
