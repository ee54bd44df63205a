/* keel/program.h - programs: building or loading one, and running it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_PROGRAM_H
#define KEEL_PROGRAM_H

#include <keel/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A program: functions made of ops. It is immutable once finished. */
typedef struct keel_program keel_program;

/* A program under construction. One thread at a time. */
typedef struct keel_builder keel_builder;

/* A value inside a builder; KEEL_ABSENT stands for an omitted argument. */
typedef uint32_t keel_value;
#define KEEL_ABSENT UINT32_MAX

/* Starts a program. After a builder call fails, the builder accepts only
 * keel_builder_destroy and keel_builder_finish, and the latter returns the
 * first failure again, so that a long construction may check just once. */
KEEL_API keel_status keel_builder_create(keel_context *context,
                                         const char *name,
                                         KD_OWNED keel_builder **out_builder);
KEEL_API void keel_builder_destroy(keel_builder *builder);

/* Adds an input; a dimension of -1 stays open until the program runs. With a
 * rank of KEEL_RANK_UNKNOWN it takes any shape, and `dims` is not read. */
KEEL_API keel_value keel_builder_input(keel_builder *builder, const char *name,
                                       kd_dtype dtype, uint32_t rank,
                                       const int64_t *dims);

/* Adds an input that takes a resource (op.h). */
KEEL_API keel_value keel_builder_resource(keel_builder *builder,
                                          const char *name);

/* Adds a constant. The tensor is retained, or copied if its memory does not
 * begin at a multiple of 64 bytes. */
KEEL_API keel_value keel_builder_constant(keel_builder *builder,
                                          keel_tensor *tensor);

/* The opset that ops of a domain (NULL, "" or "ai.onnx": ONNX's) are written for
 * from this call on, as a model's opset_import does for all of them. An op of an
 * older opset is upgraded: an attribute that has become an input, or that has
 * another default today, may be given in the old form. Before the first call ops
 * are as in op.h.
 * Returns KD_OK, KD_INVALID_ARGUMENT. An op then fails with KD_UNIMPLEMENTED if
 * Keel does not know what the opset may have changed in it, or cannot upgrade
 * it. */
KEEL_API keel_status keel_builder_opset(keel_builder *builder,
                                        const char *domain, int64_t opset);

/* The name of the nodes of ops that are added from this call on, in messages,
 * profiles, traces and placement rules. NULL or "": none. Copied. */
KEEL_API keel_status keel_builder_node_name(keel_builder *builder,
                                            const char *name);

/* Adds an op with one output, and returns the output. If the calling thread has
 * pushed a device, the op runs on that device, whatever the plan's device. */
KEEL_API keel_value keel_builder_op(keel_builder *builder, const char *op,
                                    const keel_attr *attrs, uint32_t attr_count,
                                    const keel_value *inputs,
                                    uint32_t input_count);

/* Adds an op with several outputs. */
KEEL_API keel_status keel_builder_op_n(
    keel_builder *builder, const char *op, const keel_attr *attrs,
    uint32_t attr_count, const keel_value *inputs, uint32_t input_count,
    keel_value *outputs, uint32_t output_count);

/* Starts a body: a function that an op runs, such as a branch of If or the body
 * of Loop or Scan. It is built like a program: with inputs (those of ONNX for
 * the body), constants, ops, outputs and bodies of its own. An op of `outer` takes
 * it over where its attributes have KEEL_BODY("then_branch", body). From then
 * on, and when `outer` is finished or destroyed, it accepts only
 * keel_builder_destroy, which it needs in any case. A body that fails
 * makes the op fail with its message. It begins with the opsets of `outer`. */
KEEL_API keel_status keel_builder_body(keel_builder *outer, const char *name,
                                       KD_OWNED keel_builder **out_body);

/* A value of the builder that the body was started in, as a value of the body.
 * A value from further out is captured by each body on the way. */
KEEL_API keel_value keel_builder_capture(keel_builder *body, keel_value outer);

/* Adds a loop that runs `body` as long as `condition` returns true, which is
 * evaluated before each iteration: StableHLO's while. Both are bodies of
 * `builder` with an input for each carried value; the condition's output is one
 * bool, and the body's are the carried values of the next iteration. It is made
 * of ONNX's Loop.
 *
 * inputs   the carried values before the first iteration
 * outputs  receives the carried values after the last, `count` of them */
KEEL_API keel_status keel_builder_while(keel_builder *builder,
                                        keel_builder *condition,
                                        keel_builder *body,
                                        const keel_value *inputs,
                                        uint32_t count, keel_value *outputs);

/* Makes a value the program's next output, with a name. Its type is declared if
 * it is known in full. */
KEEL_API keel_status keel_builder_output(keel_builder *builder,
                                         const char *name, keel_value value);

/* Checks the program and returns it; the builder is then empty, but must still
 * be destroyed. Returns KD_OK, KD_FAILED_PRECONDITION (no output; a body that
 * no op has taken over), or the first failure. */
KEEL_API keel_status keel_builder_finish(keel_builder *builder,
                                         KD_OWNED keel_program **out_program);

/* Loads a model file. Its kind follows from its contents: Keel's binary form, its text
 * (MLIR), a portable artifact of StableHLO (docs/stablehlo.md) or, if
 * Keel was built with protobuf-c, ONNX. The binary form is
 * mapped, and so are large constants of ONNX, in the model's file or beside it:
 * these files must not change while the program, its plans or their values
 * live. Replace such a file by a new one; do not overwrite it in place.
 * Returns KD_OK, KD_NOT_FOUND (the file, or a device it is compiled for),
 * KD_PERMISSION_DENIED, KD_DATA_LOSS (damaged; the message says where),
 * KD_INCOMPATIBLE (from a later Keel), KD_UNIMPLEMENTED (an op or feature that
 * Keel does not have), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_load(keel_context *context, const char *path,
                                       KD_OWNED keel_program **out_program);

/* The same of a model that is in memory, which is copied and may be freed when
 * the call returns.
 *
 * path  its name in messages; external data of an ONNX model is looked for
 *       beside it. The file itself need not exist
 * Returns as keel_program_load does, and KD_UNAVAILABLE (the system cannot map
 * memory as a file). */
KEEL_API keel_status keel_program_load_memory(
    keel_context *context, const char *path, const void *data, uint64_t size,
    KD_OWNED keel_program **out_program);

/* Saves as MLIR in generic syntax, which mlir-opt reads with
 * --allow-unregistered-dialect. The text has no compiled forms of regions:
 * plans of it compile them. Without this flag a program is saved in Keel's
 * binary form, which opens at once: nothing in it is parsed, and constants and
 * compiled forms are used in place. */
#define KEEL_SAVE_TEXT 0x1u

/* Writes a program to a file, which is replaced completely or not at all: other
 * processes and mappings see the old file until then, any number of processes may
 * write to one path, and an error leaves the old file as it was. The new file has
 * the mode of the old one, and its owner if the process may set that. Links are followed; a
 * device or a pipe is written into. keel_value_save and keel_trace_stop write files in the
 * same way. `flags` is 0 or KEEL_SAVE_TEXT.
 * Returns KD_OK, KD_UNIMPLEMENTED (a constant's type has no text),
 * KD_PERMISSION_DENIED, KD_UNAVAILABLE (cannot be written),
 * KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_save(const keel_program *program,
                                       const char *path, uint32_t flags);

/* Takes the next chunk of a file. Returns KD_OK, or a status that ends the
 * writing. */
typedef keel_status (*keel_write_function)(void *write_context,
                                           const void *data, uint64_t size);

/* Passes the file that keel_program_save would write to a function, on the
 * calling thread.
 * Returns KD_OK, KD_UNIMPLEMENTED (a constant's type has no text), the status of
 * `write`, KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_write(const keel_program *program,
                                        uint32_t flags,
                                        keel_write_function write,
                                        void *write_context);

KEEL_API void keel_program_release(keel_program *program);

/* An input or output of a program. */
typedef struct keel_port {
  const char *name;    /* lives as long as the program */
  kd_dtype dtype;      /* KD_NONE: not a tensor, or not known */
  uint32_t rank;       /* KEEL_RANK_UNKNOWN if it is not known */
  const int64_t *dims; /* -1: open */
  uint32_t flags;
  /* For each dimension, the model's name of an open one ("batch"), or NULL;
   * dimensions with the same name are to be equal. NULL: none has a name. */
  const char *const *symbols;
  /* In a program for several devices: the shards of the group's members, in XLA's syntax, as
   * "{devices=[2,1]<=[2]}"; dims are those of a shard. NULL: each member has the whole value.
   * Keel's own forms of programs do not have it. */
  const char *sharding;
} keel_port;

#define KEEL_RANK_UNKNOWN UINT32_MAX
/* The port takes a sequence, optional or resource. */
#define KEEL_PORT_SEQUENCE 0x1u
#define KEEL_PORT_OPTIONAL 0x2u
#define KEEL_PORT_RESOURCE 0x4u
/* The model is written to reuse this input's memory: callers should donate it
 * (keel_run_params). It is not donated by itself. */
#define KEEL_PORT_DONATED 0x8u

/* Returns KD_OK, KD_OUT_OF_RANGE. Inputs with an initial value in the model are
 * not counted: they are constants, unless keel_program_override makes them
 * inputs. */
KEEL_API uint32_t keel_program_input_count(const keel_program *program);
KEEL_API keel_status keel_program_input(const keel_program *program,
                                        uint32_t index, keel_port *out_port);
KEEL_API uint32_t keel_program_output_count(const keel_program *program);
KEEL_API keel_status keel_program_output(const keel_program *program,
                                         uint32_t index, keel_port *out_port);

/* The inputs of an ONNX model that have an initial value which a caller may
 * replace: overridable initializers, in ONNX Runtime's words. A model before
 * version 4 of ONNX's IR has none, since each initializer had to be an input there;
 * a program in one of Keel's own forms has none either.
 *
 * out_port  its strings live as long as the program
 * Returns KD_OK, KD_OUT_OF_RANGE. */
KEEL_API uint32_t keel_program_initializer_count(const keel_program *program);
KEEL_API keel_status keel_program_initializer(const keel_program *program,
                                              uint32_t index,
                                              keel_port *out_port);

/* Makes the program in which initializers are inputs without a value, in the
 * model's order among the others. The model, which stays mapped, is read again, with
 * the files that it names; shapes and ops that depend on the initial values are open
 * in the new program. `program` stays as it is, and may be released before the new
 * one. Any thread.
 *
 * names  of keel_program_initializer
 * Returns KD_OK, KD_NOT_FOUND (a name; the message lists the initializers),
 * KD_UNIMPLEMENTED (not an ONNX model), or as keel_program_load does. */
KEEL_API keel_status keel_program_override(const keel_program *program,
                                           const char *const *names,
                                           uint32_t count,
                                           KD_OWNED keel_program **out_program);

/* The sizes of an input. */
typedef struct keel_input_sizes {
  uint32_t input; /* its index */
  uint32_t rank;
  const int64_t *dims; /* -1: as it is */
} keel_input_sizes;

/* Makes the program whose inputs have these sizes where they were open, as keel_program_compile
 * wants them for devices with compilers of their own. Other open dimensions of the same name get
 * the same size. `program` stays as it is, and may be released before the new one. Any thread.
 *
 * Returns KD_OK, KD_OUT_OF_RANGE (an index), KD_INVALID_ARGUMENT (another rank or size than the
 * input has, two sizes for one name, impossible sizes, not a tensor),
 * KD_FAILED_PRECONDITION (a program that is compiled), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_fix(const keel_program *program,
                                      const keel_input_sizes *inputs,
                                      uint32_t count,
                                      KD_OWNED keel_program **out_program);

/* 1 if an op of it, nested functions included, generates random numbers (other
 * than from a seed and a counter that are values). */
KEEL_API int keel_program_is_random(const keel_program *program);

/* The number of ops in it, nested functions included. */
KEEL_API uint32_t keel_program_op_count(const keel_program *program);

/* A program prepared for a device: pruned, folded, placed and laid out. Any
 * number of threads may run one plan at once. */
typedef struct keel_plan keel_plan;

/* Ops without a device of their own go where they finish first, by costs that
 * are measured once on each device (some milliseconds; more if it compiles); all
 * go to the device that is best alone, unless it is expected to take half as long
 * again. */
#define KEEL_PLAN_BY_COST 0x8u

/* A cancellation token, shared by any number of runs and plan creations. */
typedef struct keel_cancel keel_cancel;

/* How to make a plan. Zero in any field but the first means its default. */
typedef struct keel_plan_params {
  uint32_t struct_size; /* sizeof(keel_plan_params) */
  uint32_t flags;       /* KEEL_PLAN_*; for tests, debug.h has more */
  keel_device *device;  /* NULL: the calling thread's scope, the device that
                           the program was compiled for, or the default */

  /* Where single ops run: "GLOB=DEVICE", where GLOB matches names of nodes or
   * ops. The first match counts, and takes precedence over the scope in which a
   * builder added the op. "GLOB=@OTHER": on the device of the first op that
   * OTHER matches; if costs decide, within one function. The device "cuda"
   * means "cuda:0". */
  const char *const *places;
  uint32_t place_count;

  /* The names of passes to leave out. */
  uint32_t skip_count;
  const char *const *skip;

  /* Called on the calling thread after the pass `on_pass_name` (NULL: each)
   * with the program at that point, as MLIR; constants of more than a few
   * elements are left out. NULL: not called. */
  void (*on_pass)(void *on_pass_context, const char *pass, const char *text);
  void *on_pass_context;
  const char *on_pass_name;

  /* Ends planning early, as in keel_run_params: a cancellation token (NULL:
   * none) and a time limit in nanoseconds (0: none). A running kernel or
   * compiler finishes, but no other starts. Neither applies to runs of the
   * plan. */
  keel_cancel *cancel;
  uint64_t timeout;

  /* Bytes that versions of the plan may take (keel_plan_prepare, whose versions count, but stay).
   * Sizes for which no bytes are left run the plan for all sizes. Weights, which versions share, do
   * not count, and what a version takes is measured after a few runs. 0: 256 MiB. */
  uint64_t version_bytes;
} keel_plan_params;

/* The passes that make a plan from a program, in order: their names, and a short
 * description of each; NULL past the last. A pass that runs twice is listed
 * twice, and leaving it out removes both. Some cannot be left out. */
KEEL_API const char *keel_pass_name(uint32_t index);
KEEL_API const char *keel_pass_about(uint32_t index);
/* 1: it cannot be left out. */
KEEL_API int keel_pass_needed(uint32_t index);

/* 1: it affects only plans, not the result of keel_program_compile, as it is
 * specific to the devices of one process. */
KEEL_API int keel_pass_last(uint32_t index);

/* Runs the first passes of a plan with these parameters, and returns their
 * result as a program that can be saved. A plan of that program is for the same
 * device, unless something names another. Devices with compilers of their own
 * compile their regions now, unless the pass "regions" is left out. The program
 * then holds the compiled forms beside its ops, as its binary file will: a plan
 * of it, in this process or another, compiles nothing if plugin, version,
 * options, product and driver are the same. If a form does not fit or is
 * damaged, the log has a warning, and the region is compiled from the ops.
 * Returns as keel_plan_create does, without KD_UNIMPLEMENTED. */
KEEL_API keel_status keel_program_compile(const keel_program *program,
                                          const keel_plan_params *params,
                                          KD_OWNED keel_program **out_program);

/* Reports on the regions that keel_program_compile has made: for how many the
 * program holds the compiled form (equal ones count once), the bytes of these
 * forms, and how many have none because their plugin provides none; each
 * process compiles those. For a program from a file the last is not known: 0.
 * Any may be NULL. */
KEEL_API void keel_program_regions(const keel_program *program,
                                   uint32_t *out_held, uint64_t *out_size,
                                   uint32_t *out_bare);

/* The result of keel_program_support for one op. */
typedef struct keel_support {
  const char *node; /* the model's name for it, or "" */
  const char *op;   /* "Relu", "keel::FusedConv" */
  keel_status status;
  const char *why; /* a sentence; "" with KD_OK */
} keel_support;

typedef void (*keel_support_function)(void *support_context,
                                      const keel_support *op);

/* Whether a device runs a program by itself, as a plan for the device would run
 * it, without making a plan. The passes run: for an op without a kernel on the
 * device, the simpler ops that it is written with count, and for fused ops the
 * result. Nothing is compiled, and nothing runs but the folding of constants.
 * Ops of the runtime itself (Reshape, If) are taken on every device.
 *
 * device  NULL: as in keel_plan_params
 * each    called on the calling thread for each op that is left after the
 *         passes, in the program's order, nested functions behind their op;
 *         NULL: not called. The status of an op is KD_OK; KD_UNIMPLEMENTED (it
 *         would run on another device, or on none); KD_FAILED_PRECONDITION (the
 *         device has kernels for it, but its types or sizes are known in a run
 *         only)
 * Returns KD_OK if the device takes all ops, else the status of the first with
 * KD_UNIMPLEMENTED or, if there is none, of the first that is not taken:
 * keel_message names it, and why. For failures before kernels are chosen,
 * returns as keel_plan_create does. */
KEEL_API keel_status keel_program_support(keel_program *program,
                                          keel_device *device,
                                          keel_support_function each,
                                          void *support_context);

/* Creates a plan. The program may be released before the plan. The plan then
 * runs inputs of the shapes that the program declares, and drops the weights
 * that its kernels hold in a form of their own, so that a model is held once.
 * Keep the program if inputs of other shapes may come.
 * Returns KD_OK, KD_NOT_FOUND (a device, a pass), KD_INVALID_ARGUMENT (a
 * placement, unknown flags, no struct_size), KD_UNIMPLEMENTED (no device has a kernel
 * for an op; the message names op and types), KD_CANCELLED, KD_DEADLINE_EXCEEDED (the message says
 * before which op), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_plan_create(keel_program *program,
                                      const keel_plan_params *params,
                                      KD_OWNED keel_plan **out_plan);
KEEL_API void keel_plan_release(keel_plan *plan);

/* The program's inputs and outputs, as keel_program_input and keel_program_output
 * report them; the strings live as long as the plan. */
KEEL_API uint32_t keel_plan_input_count(const keel_plan *plan);
KEEL_API keel_status keel_plan_input(const keel_plan *plan, uint32_t index,
                                     keel_port *out_port);
KEEL_API uint32_t keel_plan_output_count(const keel_plan *plan);
KEEL_API keel_status keel_plan_output(const keel_plan *plan, uint32_t index,
                                      keel_port *out_port);

/* Runs a plan and waits until it has ended, the work of devices included (but see
 * KEEL_RUN_ENQUEUES).
 *
 * inputs   one per program input, in order; pending ones are waited for. An
 *          input of another shape than the program declares runs with a plan
 *          that assumes no shapes, which is made then. It is refused, as is one
 *          of another type, if the program is compiled, or was released and
 *          declares every size
 * outputs  receives one per program output; the caller releases each
 * Returns KD_OK, or the first failure, with the node's name, op and shapes
 * (outputs are then NULL). If a device fails after the call that enqueued its work, it does not
 * report which launch failed: the message then has the first and the last of the launches in
 * question. An input that has failed ends the run at once, also if others are pending. */
KEEL_API keel_status keel_plan_run(keel_plan *plan, keel_tensor *const *inputs,
                                   uint32_t input_count,
                                   KD_OWNED keel_tensor **outputs,
                                   uint32_t output_count);

KEEL_API keel_status keel_cancel_create(keel_context *context,
                                        KD_OWNED keel_cancel **out_cancel);
/* Synchronous runs that use the token must have ended. NULL does nothing. */
KEEL_API void keel_cancel_release(keel_cancel *cancel);
/* Requests cancellation, once and for good. Any thread. why: goes into the
 * runs' error message, or NULL; copied. */
KEEL_API void keel_cancel_request(keel_cancel *cancel, const char *why);

/* Outputs that do not depend on a failure are computed and returned, the others
 * as failed values. */
#define KEEL_RUN_PARTIAL 0x1u
/* keel_plan_begin: no op runs before all inputs have arrived; a failed input takes effect once
 * the inputs before it have arrived. Best if the inputs are outputs of another run that arrive
 * soon: as a whole, the run needs less memory, and its device's recording can be launched. */
#define KEEL_RUN_WHOLE 0x2u

/* keel_plan_run_with: returns when devices have been given all work, and does not wait for them.
 * Best for a run whose outputs go into the next one. Work that fails later fails any call that
 * reads an output (keel_tensor_wait, keel_tensor_read, another run). keel_plan_begin never
 * waits. */
#define KEEL_RUN_ENQUEUES 0x4u

/* An input of another rank or size than the program declares is refused; without this flag, a plan is
 * made for it (keel_plan_run). Open dimensions take any size. */
#define KEEL_RUN_DECLARED 0x8u

/* Memory of the caller's for an output. */
typedef struct keel_output_memory {
  void *data;    /* host memory; NULL: the output gets memory of Keel's */
  uint64_t size; /* bytes */
} keel_output_memory;

/* How to run. Zero in any field but the first means its default. */
typedef struct keel_run_params {
  uint32_t struct_size; /* sizeof(keel_run_params) */
  uint32_t flags;       /* KEEL_RUN_* */
  keel_cancel *cancel;  /* cancels the run; NULL: none */
  uint64_t timeout;     /* time limit in nanoseconds; 0: none */

  /* Donated inputs: indices, each at most once. The call takes over the
   * caller's reference to each of them, whatever it returns; the handle is then
   * used no more, as after keel_tensor_release. The run frees an input after
   * its last use. If that was the last reference, the memory holds an output or
   * another value of the run as soon as nothing in the run reads it; if there is
   * another reference (also as another input of this run, or through memory that
   * is mapped, exported or the application's own), the value stays as it is. A
   * run that fails has used the inputs up, too. NULL and 0: none. */
  const uint32_t *donated;
  uint32_t donated_count;
  uint32_t reserved;

  /* Asks whether the run is to end early, as on cancellation: for a caller that can ask whether a
   * request was given up, but is not told so. Called about every 10 ms, on one thread of Keel's
   * that is also the clock of all time limits: it must be short, must not block, and calls no
   * function of Keel's. It is not called any more once it has returned other than 0,
   * keel_plan_run_with has returned, or `done` is called. NULL: not asked. */
  int (*should_end)(void *should_end_context);
  void *should_end_context;

  /* keel_plan_begin: called once, when each output is written (keel_tensor_on_written) or has
   * failed, with KD_OK or the failure that came first, whose text is keel_message(). It is called
   * on a thread of Keel's, or on the calling one before keel_plan_begin returns, may release
   * values, must be short and must not block. Not called if keel_plan_begin fails. NULL: none. */
  void (*done)(void *done_context, keel_status status);
  void *done_context;

  /* keel_plan_run_with, without KEEL_RUN_ENQUEUES: the memory that outputs are to be in, by their
   * index; outputs beyond `into_count` get memory of Keel's. A kernel of a device that works on host
   * addresses writes there, where the memory is aligned to 64 bytes and the sizes are known before
   * the run; otherwise the output is copied there at the end. Memory that is aligned to the elements
   * is the returned tensor's: it must not change, and must stay, until the tensor is released. Memory
   * with less alignment gets a copy, and the tensor has memory of its own. What is behind the
   * output's bytes is left as it is. A run that fails may have written some. Pieces must not overlap
   * one another or an input. NULL and 0: none. */
  const keel_output_memory *into;
  uint32_t into_count;
  uint32_t reserved_into;
} keel_run_params;

/* Runs a plan and waits, as keel_plan_run does. On cancellation or timeout,
 * running ops finish and no new op starts, nested functions included; waiting
 * for pending inputs and for devices ends, too, but a device completes the work
 * that is enqueued on it. The plan can be run again. An op that hangs blocks the
 * caller, as it may read the caller's inputs: keel_plan_begin with
 * keel_tensor_wait does not wait for it.
 * Returns KD_OK, the first failure, KD_CANCELLED or KD_DEADLINE_EXCEEDED (the
 * message says before which op), KD_INVALID_ARGUMENT (a donated input that the
 * program does not have, or that is named twice; unknown flags; no struct_size;
 * memory in `into` that overlaps, or for an output that is not a tensor of plain
 * data), KD_OUT_OF_RANGE (memory in `into` is too small).
 * On failure the outputs are NULL or, with KEEL_RUN_PARTIAL, all set: a failed
 * output has the reason (keel_tensor_query). */
KEEL_API keel_status keel_plan_run_with(keel_plan *plan,
                                        const keel_run_params *params,
                                        keel_tensor *const *inputs,
                                        uint32_t input_count,
                                        KD_OWNED keel_tensor **outputs,
                                        uint32_t output_count);

/* Begins a run and returns. The outputs are pending: each becomes ready when it
 * is computed or its device has the work (keel_tensor_on_written), or fails with the run or, with
 * KEEL_RUN_PARTIAL, with an op or input that it depends on. Inputs other than resources may be
 * pending, and must then have the declared shape; ops that do not need them run
 * before they arrive. Plan, inputs and token may be released at once; donated
 * inputs are the run's.
 * Cancellation or timeout fails the outputs that are not ready by then, and ends
 * the run before its next op, or when the input that it waits for arrives:
 * keel_close waits for that. It does so even if ops hang, on any device; memory
 * that these use is kept until they end. Callbacks of these outputs are called
 * on a thread outside the pool or, if none can be started, by the pool. A thread
 * of the application that waits for an output of a run with a limit or a token
 * does not help the pool meanwhile, if the pool has workers.
 * Returns KD_OK, or why it cannot begin (outputs are then NULL). */
KEEL_API keel_status keel_plan_begin(keel_plan *plan,
                                     const keel_run_params *params,
                                     keel_tensor *const *inputs,
                                     uint32_t input_count,
                                     KD_OWNED keel_tensor **outputs,
                                     uint32_t output_count);

/* Makes the version of a plan for one set of sizes now, and keeps it for the plan's life. A plan
 * of a program with open sizes runs any sizes with one plan for all of them; its runs make versions
 * (plans in which sizes are constants) for the first sizes, for sizes that recur, and for others
 * where one run pays for it. A run of prepared sizes finds its version. Nothing is made for sizes
 * that are prepared already, nor for a program without open ones. At most 256 sets are prepared.
 * Any thread.
 *
 * inputs  sizes of inputs, as for keel_program_fix; open dimensions of one name get one size
 * Returns KD_OK, KD_OUT_OF_RANGE (an index), KD_INVALID_ARGUMENT (another rank or size than the
 * program declares, two sizes for one name, a size that stays open), KD_FAILED_PRECONDITION (open
 * sizes, and a plan with KEEL_PLAN_ONE or KEEL_PLAN_EAGER of keel/debug.h, which makes no versions;
 * 256 sets are prepared), or as keel_plan_create does. */
KEEL_API keel_status keel_plan_prepare(keel_plan *plan,
                                       const keel_input_sizes *inputs,
                                       uint32_t count);

/* A plan's versions, and its runs whose inputs are all ready when they begin. */
typedef struct keel_version_counts {
  uint64_t kept;          /* versions that there are now */
  uint64_t pinned;        /* of these, by keel_plan_prepare */
  uint64_t made, evicted; /* since the plan was made, as below; one that is made
                             for a single run is neither kept nor evicted */
  uint64_t hits;          /* runs that found their version */
  uint64_t misses;        /* runs that made it, or ran the plan for all sizes */
  uint64_t time;          /* nanoseconds in which versions were made */
} keel_version_counts;

/* Waits for the version that is being made, if there is one. Any thread, but not in a log callback;
 * all zero for a plan without versions. */
KEEL_API void keel_plan_versions(keel_plan *plan,
                                 keel_version_counts *out_counts);

/* How many times a function of the plan was run by launching a recording since
 * the plan was made; its plans for other input types count as long as they
 * exist. */
KEEL_API uint64_t keel_plan_replays(keel_plan *plan);

/* Memory of the values of the plan's main function in a run, except inputs,
 * outputs and constants, in bytes: as planned, without any sharing, and the
 * peak if the ops run in order. Any may be NULL.
 * Returns KD_OK, KD_FAILED_PRECONDITION (not planned: no run has succeeded and
 * been followed by another with the same types, or the function has ops that
 * are run value by value). */
KEEL_API keel_status keel_plan_memory(keel_plan *plan, uint64_t *out_planned,
                                      uint64_t *out_unshared,
                                      uint64_t *out_peak);

/* The memory that a plan and its versions hold, in host memory or on one device, in bytes.
 * Memory that several plans share counts for each of them. */
typedef struct keel_footprint {
  const char *device; /* "host", "cuda:0"; lives as long as the context */
  uint64_t constants; /* each once, also for many versions */
  uint64_t mapped;    /* constants that are read in the model's file (host) */
  /* Constants of which kernels hold a form of their own, as packed weights: each once, with the
   * size that the program has it in. */
  uint64_t taken;
  uint64_t recorded; /* arenas, inputs and outputs that recordings hold */
  /* Taken from the pool by each run that is under way, for its values, as far as that is planned:
   * the most of any version. It is not held between runs. */
  uint64_t values;
} keel_footprint;

/* index  0: host memory; n: device n - 1 of the context
 * Any thread, also while the plan runs; memory that a run has for itself meanwhile is not
 * counted. Returns KD_OK, KD_OUT_OF_RANGE (past the last device), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_plan_footprint(keel_plan *plan, uint32_t index,
                                         keel_footprint *out_footprint);

/* Where the time of runs went: one line per op of the plan. */
typedef struct keel_profile_line {
  const char *node;   /* the model's name for it, or "" */
  const char *op;     /* or "Copy in", "Copy out": to the device, from it */
  const char *device; /* "cpu:0"; "host" for the runtime's own ops */
  char types[96];     /* "f32[1,64,56,56] f32[64]": of its inputs */
  uint64_t calls;
  uint64_t time; /* nanoseconds, all calls, as the host saw them */
  /* Nanoseconds of `time` spent moving inputs; for a copy all of it, from its
   * start until the data has arrived. */
  uint64_t copies;
  uint64_t device_time; /* nanoseconds of its kernels, by the device's clock */
  /* 1: device_time is known (KEEL_PROFILE_CLOCKS, and the plugin has
   * timestamps). On an asynchronous device the host sees only the launch. */
  uint32_t timed;
  uint32_t reserved;
} keel_profile_line;

#define KEEL_PROFILE_OPS    1u /* ops, as the host sees their calls */
#define KEEL_PROFILE_CLOCKS 2u /* that, and by the devices' own clocks */

/* Starts counting as `what` selects, from zero, or stops (0). One plan at a time
 * with KEEL_PROFILE_CLOCKS: all plans share the clocks. */
KEEL_API void keel_plan_profile(keel_plan *plan, uint32_t what);

/* A device's time from the first profiled run until the stop, in nanoseconds. */
typedef struct keel_profile_device {
  const char *name; /* "vulkan:0" */
  uint64_t calls;   /* of ops, without copies */
  uint64_t wall;    /* in total */
  uint64_t kernels; /* of wall, in kernels */
  uint64_t copies;  /* of wall, moving data */
  uint64_t idle;    /* of wall, in neither */
  uint64_t bytes;   /* moved; 0: not known */
  uint32_t timed;   /* 1: by the clocks of the plugin's devices, all of them
                       together; 0: as the host saw the calls */
  uint32_t reserved;
} keel_profile_device;

/* The devices that ran ops, in the context's order, after profiling has
 * stopped.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last). */
KEEL_API keel_status keel_plan_profile_device(keel_plan *plan, uint32_t index,
                                              keel_profile_device *out_device);

/* Exchanges with other members (keel/op.h) that profiled runs have waited for,
 * in nanoseconds. */
typedef struct keel_profile_exchanges {
  uint64_t calls; /* exchanges that were not complete at once */
  uint64_t time;  /* in which at least one was under way */
  /* of time, without any op running: communication that computation does not
   * overlap. On an asynchronous device the host sees the launches alone, so the
   * true value may be smaller: it is at most keel_profile_device.idle by the
   * device's clock. */
  uint64_t bare;
} keel_profile_exchanges;

KEEL_API void keel_plan_profile_exchanges(
    keel_plan *plan, keel_profile_exchanges *out_exchanges);

/* The lines of the profile, in the plan's order; nested functions follow their
 * node, and lines of plans for recurring or undeclared input types follow at the
 * end. Valid until profiling starts again or the plan is released.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last). */
KEEL_API keel_status keel_plan_profile_line(keel_plan *plan, uint32_t index,
                                            keel_profile_line *out_line);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_PROGRAM_H */
