/* kd/host.h - the host's services for a plugin.
 *
 * A plugin does not link against the host: kd_host has all that it may call.
 * The tables are const and live until the plugin's `close` has returned. Any
 * thread may call any slot at any time, even inside a call from the host,
 * unless a slot says otherwise. The host fills every slot of the version that
 * it states. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_HOST_H
#define KD_HOST_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of `log`. */
#define KD_LOG_ERROR   0u
#define KD_LOG_WARNING 1u
#define KD_LOG_INFO    2u
#define KD_LOG_DEBUG   3u

/* Kinds of attributes: the numbers of ONNX's AttributeProto.AttributeType. */
#define KD_ATTR_ABSENT  0u
#define KD_ATTR_FLOAT   1u
#define KD_ATTR_INT     2u
#define KD_ATTR_STRING  3u
#define KD_ATTR_TENSOR  4u
#define KD_ATTR_GRAPH   5u
#define KD_ATTR_FLOATS  6u
#define KD_ATTR_INTS    7u
#define KD_ATTR_STRINGS 8u

/* The body of a parallel loop: processes the items from `begin` up to, but not
 * including, `end`. */
typedef void (*kd_loop_body)(void *context, int64_t begin, int64_t end);

/* Reads one op: its name, types, constants and attributes. Pointers that these
 * slots return are borrowed for as long as the node is valid: for the call that
 * passed it or, if that was `create`, for the life of the kernel; for constants
 * see also KD_KERNEL_CONSTANTS_IN_CREATE and kd_kernel_def.taken. An attribute
 * that the model does not set has the schema's default. */
typedef struct kd_node_table {
  uint32_t struct_size; /* sizeof(kd_node_table) as the host knew it */
  uint32_t reserved;

  /* The op's name ("Conv"), its domain ("ai.onnx", "keel", a vendor's own), and
   * the name that the model gave this node (never NULL, may be ""). */
  const char *(*op)(const kd_node *node);
  const char *(*domain)(const kd_node *node);
  const char *(*name)(const kd_node *node);

  /* The opset version whose semantics the node has: the newest that changed the
   * op, up to the opset that the host upgrades models to. */
  uint32_t (*opset)(const kd_node *node);

  /* How many inputs and outputs it has. Absent optional ones count, unless no
   * present one follows. */
  uint32_t (*input_count)(const kd_node *node);
  uint32_t (*output_count)(const kd_node *node);

  /* Element type and shape of an input or output. A kernel's node has known
   * types. In a graph a dimension may be -1: two such dimensions may differ, and
   * one may turn out to be 1. If nothing is known, dtype is KD_NONE and rank
   * KD_RANK_UNKNOWN.
   * Returns KD_OK, KD_NOT_FOUND (an absent optional argument, or an output
   * whose shape the kernel sets itself; out_type is then all zero),
   * KD_OUT_OF_RANGE (no such index). */
  kd_status (*input_type)(const kd_node *node, uint32_t index,
                          kd_type *out_type);
  kd_status (*output_type)(const kd_node *node, uint32_t index,
                           kd_type *out_type);

  /* The value of an input that is a constant of the program, in host memory,
   * packed row-major: `create` prepacks weights from it. In `supports` and
   * `cost` the data is valid for the call alone; in `create` it is valid until
   * `destroy` (see KD_KERNEL_CONSTANTS_IN_CREATE, kd_kernel_def.taken). Another
   * constant may lie at the same address later.
   * Returns KD_OK, KD_NOT_FOUND (not a constant). */
  kd_status (*constant)(const kd_node *node, uint32_t index,
                        kd_tensor *out_tensor);

  /* Two nodes of one op may differ in any attribute, by a bit of a float. */

  /* The kind of an attribute; KD_ATTR_ABSENT if the node has none of that name,
   * not even by default. */
  uint32_t (*attr_kind)(const kd_node *node, const char *name);

  /* A single value; `fallback` if the attribute is absent or of another
   * kind. */
  int64_t (*attr_int)(const kd_node *node, const char *name, int64_t fallback);
  float (*attr_float)(const kd_node *node, const char *name, float fallback);
  const char *(*attr_string)(const kd_node *node, const char *name,
                             const char *fallback);

  /* A list: sets *out_values and returns the length; if the attribute is absent
   * or of another kind, sets *out_values to NULL and returns -1. */
  int64_t (*attr_ints)(const kd_node *node, const char *name,
                       const int64_t **out_values);
  int64_t (*attr_floats)(const kd_node *node, const char *name,
                         const float **out_values);
  int64_t (*attr_strings)(const kd_node *node, const char *name,
                          const char *const **out_values);

  /* A tensor attribute, in host memory. Returns KD_OK, KD_NOT_FOUND. */
  kd_status (*attr_tensor)(const kd_node *node, const char *name,
                           kd_tensor *out_tensor);

  /* The attributes of the node, those set by the schema's default included, in
   * a fixed order: how many there are, and the name of each; NULL if there is
   * no such index. */
  uint32_t (*attr_count)(const kd_node *node);
  const char *(*attr_name)(const kd_node *node, uint32_t index);

  /* A graph attribute of a node of a graph: a branch of If, the body of a Loop
   * or Scan. Its first inputs are those that the op's specification names. The
   * others are values from the graph around the node. They are also the node's
   * last inputs: those of each of its graphs, in the order of attr_name. NULL
   * if the attribute is absent or is not a graph. */
  const kd_graph *(*attr_graph)(const kd_node *node, const char *name);

  /* A number of a constant input: constants of one number have the same type and
   * bytes, in all nodes and for the life of the process. So a plugin can share
   * the form that it packs a constant into, and find it without reading the
   * data: a program whose sizes change makes kernels of the same constants for
   * each set of sizes. The form may depend on the node, too: a Gemm can read the
   * transpose of the constant that a MatMul reads. 0: not a constant, or a
   * constant of strings. */
  uint64_t (*constant_id)(const kd_node *node, uint32_t index);
} kd_node_table;

/* Reads a graph: its nodes in topological order, and the values between them,
 * which are numbered from 0. */
typedef struct kd_graph_table {
  uint32_t struct_size; /* sizeof(kd_graph_table) as the host knew it */
  uint32_t reserved;

  uint32_t (*node_count)(const kd_graph *graph);
  const kd_node *(*node)(const kd_graph *graph, uint32_t index);

  /* How many values there are; the number of each is less than this. */
  uint32_t (*value_count)(const kd_graph *graph);

  /* The value that a node reads or writes; UINT32_MAX for an absent
   * argument. */
  uint32_t (*node_input)(const kd_graph *graph, uint32_t node, uint32_t index);
  uint32_t (*node_output)(const kd_graph *graph, uint32_t node, uint32_t index);

  /* The graph's inputs, which are values from outside, constants included, and
   * its outputs, which something outside needs. A graph attribute has those of
   * its function, in their order: an output may be an input, or occur twice. */
  uint32_t (*input_count)(const kd_graph *graph);
  uint32_t (*input)(const kd_graph *graph, uint32_t index);
  uint32_t (*output_count)(const kd_graph *graph);
  uint32_t (*output)(const kd_graph *graph, uint32_t index);

  /* The type of a value, as in kd_node_table.input_type. Returns KD_OK,
   * KD_OUT_OF_RANGE. */
  kd_status (*value_type)(const kd_graph *graph, uint32_t value,
                          kd_type *out_type);

  /* A constant's data. Returns KD_OK, KD_NOT_FOUND (not a constant). */
  kd_status (*value_constant)(const kd_graph *graph, uint32_t value,
                              kd_tensor *out_tensor);

  /* 1 if `claim` may take the node, 0 if it is shown for context. See
   * kd_region_table.claim. */
  uint32_t (*claimable)(const kd_graph *graph, uint32_t node);

  /* The model's name of a value; "" if it has none, or there is no such
   * value. */
  const char *(*value_name)(const kd_graph *graph, uint32_t value);
} kd_graph_table;

/* One operation of a device, for the profile. */
typedef struct kd_profile_record {
  uint64_t begin; /* device clock, ticks; see kd_profile_table.clock */
  uint64_t end;
  uint64_t correlation; /* of the launch or copy that caused it, or 0 */
  uint64_t bytes;       /* copied or accessed; 0: not known */
  uint32_t kind;        /* KD_PROFILE_* */
  uint32_t stream;      /* any number that is unique to the stream */
  const char *name;     /* of the work, such as a layer of a region; NULL: the
                           op that `correlation` identifies. Copied */
  uint64_t reserved[2];
} kd_profile_record;

struct kd_launch;

/* The host's services. A plugin gets this table in its entry function and in
 * `open`, and keeps the pointer from `open`. */
typedef struct kd_host {
  uint32_t struct_size; /* sizeof(kd_host) as the host knew it */
  uint32_t abi_version; /* KD_ABI_VERSION the host was built with */
  uint32_t abi_min;     /* the lowest plugin version it works with */
  uint32_t reserved;

  const char *name;        /* of the host, with its version: "keel 0.1.0" */
  const char *plugin_path; /* absolute path the plugin was loaded from */

  /* Records why a call fails, for the calling thread, and returns `code`, so
   * that `return host->fail(KD_X, "...")` is all that an error needs. The text
   * is copied; the last one before the call returns counts. Every status but
   * KD_OK needs one, except answers that are not failures: KD_BUSY of a query,
   * and KD_DEADLINE_EXCEEDED of a wait. Allocates nothing. */
  kd_status (*fail)(kd_status code, const char *format, ...) KD_PRINTF(2, 3);

  /* Writes one line to the host's log. level is KD_LOG_*. */
  void (*log)(const struct kd_host *host, uint32_t level, const char *format,
              ...) KD_PRINTF(3, 4);

  /* The plugin's option of that name, or NULL: the first value that the
   * application, the manifest or the environment (KEEL_<PLUGIN>_<NAME>) gives.
   * It lives as long as the host table. A plugin ignores options that it does
   * not know, and refuses a value that it cannot use with a message: not every
   * host knows kd_plugin.options. */
  const char *(*option)(const struct kd_host *host, const char *name);

  /* Host memory for the plugin's own use. alignment is a power of two, or 0 for
   * 64. `allocate` returns NULL if there is not enough memory. `release` takes
   * NULL, or memory from the same host's `allocate`. */
  void *(*allocate)(const struct kd_host *host, uint64_t size,
                    uint64_t alignment);
  void (*release)(const struct kd_host *host, void *memory);

  /* The host's threads, on which a plugin's loops run. `worker_count` returns how
   * many share a loop (at least 1, the caller included): in calls of a kernel's
   * slots the number of the context that the kernel runs for, always the same;
   * in a thread of the plugin's own the least number of the process's contexts.
   * `parallel_for` runs a loop over 0 <= i < count in chunks of at least
   * `grain` items (the last may be smaller), and returns when all are done; the
   * caller takes part. A body may start a nested loop, and must not block. */
  uint32_t (*worker_count)(const struct kd_host *host);
  void (*parallel_for)(const struct kd_host *host, int64_t count, int64_t grain,
                       kd_loop_body body, void *context);

  /* A persistent cache of compiled kernels, kept by the host: keyed by the
   * plugin and `key`, bounded, safe under concurrent processes. `cache_get`
   * returns KD_OK and a blob that `release` frees, or KD_NOT_FOUND; `cache_put`
   * may drop the blob silently. A blob may be damaged or of another version:
   * the plugin checks it. */
  kd_status (*cache_get)(const struct kd_host *host, const char *key,
                         KD_OWNED void **out_blob, uint64_t *out_size);
  kd_status (*cache_put)(const struct kd_host *host, const char *key,
                         const void *blob, uint64_t size);

  /* A span in the host's trace, on the calling thread. Spans nest. `name` must
   * be a string literal. The cost is negligible while no trace runs. */
  void (*zone_begin)(const struct kd_host *host, const char *name);
  void (*zone_end)(const struct kd_host *host);

  /* Delivers profile records of an open device. Never blocks. Any thread may
   * call it.
   *
   * records      `count` of them, copied
   * record_size  sizeof(kd_profile_record) as the plugin knew it: the host
   *              steps by it, and treats the fields that are missing as zero */
  void (*profile_push)(const struct kd_host *host, kd_device *device,
                       const kd_profile_record *records, uint32_t count,
                       uint32_t record_size);

  /* Sets the shape of output `index` of a launch and allocates its memory, for
   * kernels whose definition has KD_KERNEL_DYNAMIC_OUTPUT; only inside
   * `enqueue`, once for each output. If it fails, return its status from
   * `enqueue`; after KD_OUT_OF_MEMORY the host may free memory and call
   * `enqueue` again.
   *
   * out_tensor  where the data goes; launch->outputs[index] says the same
   * Returns KD_OK, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT (bad index, dims),
   * KD_FAILED_PRECONDITION (a definition without the flag). */
  kd_status (*set_output)(const struct kd_launch *launch, uint32_t index,
                          uint32_t rank, const int64_t *dims,
                          kd_tensor *out_tensor);

  const kd_node_table *node;
  const kd_graph_table *graph;

  /* A table of services that later versions or other hosts define, by name
   * ("keel.name/1"); NULL if the host has none of that name. */
  const void *(*extension)(const struct kd_host *host, const char *name);

  /* `fail` and `log` without a format: for driver messages, which may contain a
   * percent sign, and for languages that cannot call variadic functions. */
  kd_status (*fail_text)(kd_status code, const char *text);
  void (*log_text)(const struct kd_host *host, uint32_t level,
                   const char *text);
} kd_host;

#ifdef __cplusplus
}
#endif
#endif /* KD_HOST_H */
