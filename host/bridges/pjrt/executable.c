/* executable.c - programs: compiled for a device, and run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- making one ---------------------------------------------------------------------- */

static void drop(pjrt_executable *made) {
  if (!made || atomic_fetch_sub(&made->refs, 1) != 1) return;
  keel_plan_release(made->plan);
  keel_program_release(made->program);
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

/* A DeviceAssignmentProto of one replica: 1: 1, 2: 1, 3: {1: [id]}. */
static void write_assignment(pjrt_executable *made) {
  char *at = made->assignment;
  unsigned id = (unsigned)made->device->description.id;
  size_t size = id < 128 ? 1 : 2;
  *at++ = 0x08;
  *at++ = 1;
  *at++ = 0x10;
  *at++ = 1;
  *at++ = 0x1a;
  *at++ = (char)(size + 2);
  *at++ = 0x0a;
  *at++ = (char)size;
  *at++ = (char)(size == 1 ? id : (id & 0x7f) | 0x80);
  if (size == 2) *at++ = (char)(id >> 7 & 0x7f);
  made->assignment_size = (size_t)(at - made->assignment);
}

static bool is_nothing(const keel_program *program) {
  keel_port port;
  return keel_program_output_count(program) == 1 &&
         keel_program_output(program, 0, &port) == KD_OK &&
         !strcmp(port.name, "keel.nothing");
}

/* Programs of few ops end before another thread has begun. */
#define BRIEF 64

static pjrt_error *load(pjrt_executable *made, const char *bytes, size_t size) {
  keel_context *context = made->device->client->context;
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = made->device->device};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  snprintf(made->fingerprint, sizeof made->fingerprint, "%016llx-%d",
           (unsigned long long)hash, made->device->description.id);
  write_assignment(made);
  PJRT_TRY(keel_program_load_memory(context, PJRT_PROGRAM, bytes, size,
                                    &made->program));
  made->input_count = keel_program_input_count(made->program);
  made->made_count = keel_program_output_count(made->program);
  made->output_count = is_nothing(made->program) ? 0 : made->made_count;
  made->brief = keel_program_op_count(made->program) <= BRIEF;
  pjrt_error *error = read_outputs(made);
  if (!error) error = read_inputs(made);
  if (error) return error;
  PJRT_TRY(keel_plan_create(made->program, &params, &made->plan));
  return NULL;
}

pjrt_error *pjrt_executable_make(pjrt_device *device, const char *bytes,
                                 size_t size, pjrt_executable **out_made) {
  pjrt_executable *made = calloc(1, sizeof *made);
  *out_made = NULL;
  if (!made) return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a program");
  atomic_init(&made->refs, 1);
  made->device = device;
  pjrt_error *error = load(made, bytes, size);
  if (error)
    drop(made);
  else
    *out_made = made;
  return error;
}

pjrt_error *pjrt_choose(const pjrt_client *client, const char *options,
                        size_t size, pjrt_device **out_device) {
  pjrt_choice choice;
  if (!pjrt_read_options(options, size, &choice))
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "the compile options are damaged");
  if (choice.replicas > 1 || choice.partitions > 1)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "a program over %lld replicas of %lld partitions:"
                          " Keel's PJRT plugin runs a program on one device",
                          (long long)choice.replicas,
                          (long long)choice.partitions);
  if (choice.device < 0 || choice.device >= (int64_t)client->count)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "there is no device %lld; Keel has %u",
                          (long long)choice.device, (unsigned)client->count);
  *out_device = &client->devices[choice.device];
  return NULL;
}

pjrt_error *pjrt_Client_Compile(Client_Compile_args *args) {
  const pjrt_program *program = args->program;
  pjrt_device *device = NULL;
  if (program->format_size != 4 || memcmp(program->format, "mlir", 4) != 0)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "a program in the form \"%.*s\"; Keel reads"
                          " StableHLO (\"mlir\")",
                          (int)program->format_size, program->format);
  pjrt_error *error =
      pjrt_choose(args->object, args->options, args->option_size, &device);
  return error ? error
               : pjrt_executable_make(device, program->code, program->code_size,
                                      &args->result);
}

/* ---- what it is ---------------------------------------------------------------------- */

pjrt_error *pjrt_Executable_Destroy(Executable_Destroy_args *args) {
  drop(args->object);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_Destroy(LoadedExecutable_Destroy_args *args) {
  drop(args->object);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_GetExecutable(
    LoadedExecutable_GetExecutable_args *args) {
  atomic_fetch_add(&args->object->refs, 1);
  args->result = args->object;
  return NULL;
}

pjrt_error *pjrt_Executable_Name(Executable_Name_args *args) {
  PJRT_TEXT(args, PJRT_PROGRAM);
  return NULL;
}

pjrt_error *pjrt_Executable_NumReplicas(Executable_NumReplicas_args *args) {
  args->result = 1;
  return NULL;
}

pjrt_error *pjrt_Executable_NumPartitions(Executable_NumPartitions_args *args) {
  args->result = 1;
  return NULL;
}

pjrt_error *pjrt_Executable_NumOutputs(Executable_NumOutputs_args *args) {
  args->result = args->object->output_count;
  return NULL;
}

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

pjrt_error *pjrt_Executable_Fingerprint(Executable_Fingerprint_args *args) {
  PJRT_TEXT(args, args->object->fingerprint);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_Fingerprint(
    LoadedExecutable_Fingerprint_args *args) {
  PJRT_TEXT(args, args->object->fingerprint);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_AddressableDevices(
    LoadedExecutable_AddressableDevices_args *args) {
  args->list = args->object->device->self;
  args->count = 1;
  return NULL;
}

static void keep(pjrt_bytes *keeper) {
  (void)keeper; /* the executable has the bytes */
}

pjrt_error *pjrt_LoadedExecutable_GetDeviceAssignment(
    LoadedExecutable_GetDeviceAssignment_args *args) {
  args->bytes = args->object->assignment;
  args->size = args->object->assignment_size;
  args->keeper = NULL;
  args->drop = keep;
  return NULL;
}

/* The plan stays until the executable goes: another thread may be running it. */
pjrt_error *pjrt_LoadedExecutable_Delete(LoadedExecutable_Delete_args *args) {
  atomic_store(&args->object->deleted, true);
  return NULL;
}

pjrt_error *pjrt_LoadedExecutable_IsDeleted(
    LoadedExecutable_IsDeleted_args *args) {
  args->result = atomic_load(&args->object->deleted);
  return NULL;
}

/* ---- running ------------------------------------------------------------------------- */

#define FEW 32 /* arguments and results that need no memory of their own */

static void release_all(keel_tensor **tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    keel_tensor_release(tensors[i]);
}

/* Values of the arguments, retained. */
static pjrt_error *gather(const pjrt_executable *made,
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
static pjrt_error *hand_out(const pjrt_executable *made, keel_tensor **results,
                            pjrt_buffer **outputs) {
  const int64_t *dims = made->dims;
  for (uint32_t i = 0; i < made->output_count; i++) {
    pjrt_error *error =
        pjrt_buffer_make(made->device, results[i], made->types[i],
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
static pjrt_error *run(const pjrt_executable *made, keel_tensor **inputs,
                       const uint32_t *donated, uint32_t count, bool pending,
                       keel_tensor **results) {
  const keel_run_params params = {
      .struct_size = sizeof params, .donated = donated, .donated_count = count};
  keel_status status =
      made->brief && !pending
          ? keel_plan_run_with(made->plan, count ? &params : NULL, inputs,
                               made->input_count, results, made->made_count)
          : keel_plan_begin(made->plan, &params, inputs, made->input_count,
                            results, made->made_count);
  for (uint32_t i = 0; i < count; i++)
    inputs[donated[i]] = NULL;
  return pjrt_fail(status);
}

/* Buffers of the results, which it takes over, and the event of the run's end. */
static pjrt_error *give_results(const pjrt_executable *made,
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
  pjrt_error *error = hand_out(made, results, args->outputs[0]);
  if (error && done)
    pjrt_Event_Destroy(&(Event_Destroy_args){.object = done});
  else if (done)
    args->done[0] = done;
  return error;
}

/* values: room for inputs and results. */
static pjrt_error *execute(const pjrt_executable *made, keel_tensor **values,
                           uint32_t *donated,
                           LoadedExecutable_Execute_args *args) {
  pjrt_buffer *const *buffers = args->inputs[0];
  keel_tensor **results = values + made->input_count;
  bool pending = false;
  uint32_t count = 0;
  pjrt_error *error =
      gather(made, buffers, args->input_count, values, &pending);
  if (!error && made->donated_count)
    error = donate(made, args->options, buffers, values, donated, &count);
  if (!error) error = run(made, values, donated, count, pending, results);
  release_all(values, made->input_count);
  return error ? error : give_results(made, results, args);
}

pjrt_error *pjrt_LoadedExecutable_Execute(LoadedExecutable_Execute_args *args) {
  const pjrt_executable *made = args->object;
  keel_tensor *few[FEW] = {NULL}, **values = few;
  uint32_t few_donated[FEW], *donated = few_donated;
  size_t room = (size_t)made->input_count + made->made_count;
  if (args->device_count != 1)
    return pjrt_fail_text(KD_UNIMPLEMENTED, "a run on %zu devices at once",
                          args->device_count);
  if (atomic_load(&args->object->deleted))
    return pjrt_fail_text(KD_FAILED_PRECONDITION,
                          "the program has been deleted");
  if (room > FEW) {
    values = calloc(room, sizeof(keel_tensor *));
    donated = calloc(room, sizeof *donated);
  }
  pjrt_error *error = values && donated ? execute(made, values, donated, args)
                                        : pjrt_fail_text(KD_OUT_OF_MEMORY,
                                                         "no memory for a run");
  if (values != few) free(values);
  if (donated != few_donated) free(donated);
  return error;
}
