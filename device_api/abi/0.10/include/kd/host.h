/* kd/host.h - what the host does for a plugin.
 *
 * A plugin links nothing of the host: all that it may call is in kd_host. The
 * tables are const and live until the plugin's `close` has returned. Any
 * thread may call any slot at any time, also inside a call from the host,
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

/* What an attribute holds, with ONNX's AttributeProto.AttributeType numbers. */
#define KD_ATTR_ABSENT  0u
#define KD_ATTR_FLOAT   1u
#define KD_ATTR_INT     2u
#define KD_ATTR_STRING  3u
#define KD_ATTR_TENSOR  4u
#define KD_ATTR_GRAPH   5u
#define KD_ATTR_FLOATS  6u
#define KD_ATTR_INTS    7u
#define KD_ATTR_STRINGS 8u

/* Part of a parallel loop: does the items `begin` up to, not including, `end`. */
typedef void (*kd_loop_body)(void *context, int64_t begin, int64_t end);

/* Reads one op: its name, types, constants and attributes. Pointers that these
 * slots give are borrowed for as long as the node is: for the call that passed
 * it, or the life of the kernel where `create` was given it. Attributes have
 * the schema's default where the model says nothing. */
typedef struct kd_node_table {
  uint32_t struct_size; /* sizeof(kd_node_table) as the host knew it */
  uint32_t reserved;

  /* The op's name ("Conv"), its domain ("ai.onnx", "keel", a vendor's own),
   * and the name that the model gave this node (never NULL, may be ""). */
  const char *(*op)(const kd_node *node);
  const char *(*domain)(const kd_node *node);
  const char *(*name)(const kd_node *node);

  /* The opset version whose semantics the node has: the newest that changed
   * the op, up to the version that the host upgrades models to. */
  uint32_t (*opset)(const kd_node *node);

  /* How many inputs and outputs it has, absent optional ones between others
   * included, absent trailing ones not. */
  uint32_t (*input_count)(const kd_node *node);
  uint32_t (*output_count)(const kd_node *node);

  /* Element type and shape of an input or output. A kernel's are known; in a
   * graph a dimension may be -1, and where nothing is known dtype is KD_NONE and
   * rank KD_RANK_UNKNOWN.
   * Returns KD_OK, KD_NOT_FOUND (an absent optional argument, out_type is then
   * all zero), KD_OUT_OF_RANGE (no such index). */
  kd_status (*input_type)(const kd_node *node, uint32_t index,
                          kd_type *out_type);
  kd_status (*output_type)(const kd_node *node, uint32_t index,
                           kd_type *out_type);

  /* The value of an input that is a constant of the program, in host memory,
   * packed row-major: what `create` prepacks weights from.
   * Returns KD_OK, KD_NOT_FOUND (not a constant). */
  kd_status (*constant)(const kd_node *node, uint32_t index,
                        kd_tensor *out_tensor);

  /* What the attribute holds; KD_ATTR_ABSENT where there is none, not even a
   * default. */
  uint32_t (*attr_kind)(const kd_node *node, const char *name);

  /* One value; `fallback` where the attribute is absent or of another kind. */
  int64_t (*attr_int)(const kd_node *node, const char *name, int64_t fallback);
  float (*attr_float)(const kd_node *node, const char *name, float fallback);
  const char *(*attr_string)(const kd_node *node, const char *name,
                             const char *fallback);

  /* A list: returns its length and sets *out_values; -1 where the attribute is
   * absent or of another kind (*out_values is then NULL). */
  int64_t (*attr_ints)(const kd_node *node, const char *name,
                       const int64_t **out_values);
  int64_t (*attr_floats)(const kd_node *node, const char *name,
                         const float **out_values);
  int64_t (*attr_strings)(const kd_node *node, const char *name,
                          const char *const **out_values);

  /* A tensor attribute, in host memory. Returns KD_OK, KD_NOT_FOUND. */
  kd_status (*attr_tensor)(const kd_node *node, const char *name,
                           kd_tensor *out_tensor);

  /* The attributes that the node has, given or by the schema's default, in an
   * order that stays: how many, and the name of each, NULL where there is no
   * such index. */
  uint32_t (*attr_count)(const kd_node *node);
  const char *(*attr_name)(const kd_node *node, uint32_t index);

  /* A graph attribute of a node of a graph: a branch of If, the body of a Loop or
   * Scan. Its first inputs are those that the op's document names;
   * the others are values from around the node, which are the node's last
   * inputs, for each of its graphs in the order of attr_name.
   * NULL where the attribute is absent or no graph. */
  const kd_graph *(*attr_graph)(const kd_node *node, const char *name);
} kd_node_table;

/* Reads a graph: nodes in an order in which each stands behind those it needs,
 * and the values between them, which are numbered from 0. */
typedef struct kd_graph_table {
  uint32_t struct_size; /* sizeof(kd_graph_table) as the host knew it */
  uint32_t reserved;

  uint32_t (*node_count)(const kd_graph *graph);
  const kd_node *(*node)(const kd_graph *graph, uint32_t index);

  /* How many values there are; ids are smaller than this. */
  uint32_t (*value_count)(const kd_graph *graph);

  /* The value that a node reads or writes; UINT32_MAX for an absent one. */
  uint32_t (*node_input)(const kd_graph *graph, uint32_t node, uint32_t index);
  uint32_t (*node_output)(const kd_graph *graph, uint32_t node, uint32_t index);

  /* Values that come from outside, constants too, and values that somebody outside
   * needs. A graph that is an attribute has its function's, in their order: an
   * output may be an input, or stand twice. */
  uint32_t (*input_count)(const kd_graph *graph);
  uint32_t (*input)(const kd_graph *graph, uint32_t index);
  uint32_t (*output_count)(const kd_graph *graph);
  uint32_t (*output)(const kd_graph *graph, uint32_t index);

  /* Type of a value, as kd_node_table.input_type has it. Returns KD_OK,
   * KD_OUT_OF_RANGE. */
  kd_status (*value_type)(const kd_graph *graph, uint32_t value,
                          kd_type *out_type);

  /* A constant's data. Returns KD_OK, KD_NOT_FOUND (not a constant). */
  kd_status (*value_constant)(const kd_graph *graph, uint32_t value,
                              kd_tensor *out_tensor);

  /* Whether `claim` may take the node: 1 if so, and 0 for what is there to be
   * looked at. See kd_region_table.claim. */
  uint32_t (*claimable)(const kd_graph *graph, uint32_t node);

  /* What the model calls a value; "" where it has no name or there is no such
   * value. */
  const char *(*value_name)(const kd_graph *graph, uint32_t value);
} kd_graph_table;

/* One thing that happened on a device, for the profile. */
typedef struct kd_profile_record {
  uint64_t begin; /* device clock, ticks; see kd_profile_table.clock */
  uint64_t end;
  uint64_t correlation; /* of the launch or copy that caused it, or 0 */
  uint64_t bytes;       /* copied or touched; 0: not known */
  uint32_t kind;        /* KD_PROFILE_* */
  uint32_t stream;      /* any number that tells streams apart */
  const char *name;     /* what ran: a layer of a region, say; NULL: the op that
                           `correlation` names. Copied */
  uint64_t reserved[2];
} kd_profile_record;

struct kd_launch;

/* The services. A plugin gets this in its entry function and in `open`, and
 * keeps the pointer from `open`. */
typedef struct kd_host {
  uint32_t struct_size; /* sizeof(kd_host) as the host knew it */
  uint32_t abi_version; /* KD_ABI_VERSION that the host was built with */
  uint32_t abi_min;     /* the lowest plugin version that it works with */
  uint32_t reserved;

  const char *name;        /* of the host, with its version: "keel 0.1.0" */
  const char *plugin_path; /* absolute path that the plugin was loaded from */

  /* Records why a call fails, for the calling thread, and returns `code`; so
   * `return host->fail(KD_X, "...")` is all that an error needs. The text is
   * copied; the last one before the call returns counts. Allocates nothing. */
  kd_status (*fail)(kd_status code, const char *format, ...) KD_PRINTF(2, 3);

  /* Writes one line to the host's log. level is KD_LOG_*. */
  void (*log)(const struct kd_host *host, uint32_t level, const char *format,
              ...) KD_PRINTF(3, 4);

  /* The plugin's option of that name (from the application, the manifest or
   * KEEL_<PLUGIN>_<NAME>, the first that has it), or NULL. Lives as long as the
   * host table. A plugin ignores options that it does not know, and refuses a
   * value that it can't use with a message: not every host knows
   * kd_plugin.options. */
  const char *(*option)(const struct kd_host *host, const char *name);

  /* Host memory for the plugin's own use. alignment is a power of two, 0 for
   * 64. `allocate` returns NULL where there is none; `release` takes NULL, and
   * what the same host's `allocate` gave. */
  void *(*allocate)(const struct kd_host *host, uint64_t size,
                    uint64_t alignment);
  void (*release)(const struct kd_host *host, void *memory);

  /* The host's one thread pool: how many threads share a loop (at least 1, the
   * caller included), and a loop over 0 <= i < count in pieces of at least
   * `grain` items. Returns when all are done; the caller takes part. A body
   * may start an inner loop, and must not block. */
  uint32_t (*worker_count)(const struct kd_host *host);
  void (*parallel_for)(const struct kd_host *host, int64_t count, int64_t grain,
                       kd_loop_body body, void *context);

  /* A persistent store for compiled kernels, kept by the host: keyed by the
   * plugin and `key`, bounded, safe under concurrent processes. `cache_get`
   * returns KD_OK and a blob that `release` frees, or KD_NOT_FOUND;
   * `cache_put` may drop it silently. What it gives may be damaged or of another
   * version: the plugin looks. */
  kd_status (*cache_get)(const struct kd_host *host, const char *key,
                         KD_OWNED void **out_blob, uint64_t *out_size);
  kd_status (*cache_put)(const struct kd_host *host, const char *key,
                         const void *blob, uint64_t size);

  /* A span in the host's trace on the calling thread; `name` must be a string
   * literal. Spans nest. Cost nothing measurable when no trace runs. */
  void (*zone_begin)(const struct kd_host *host, const char *name);
  void (*zone_end)(const struct kd_host *host);

  /* Hands over profile records of an open device; never blocks; any thread.
   *
   * records      `count` of them, copied
   * record_size  sizeof(kd_profile_record) as the plugin knew it: the host
   *              steps by it, and takes what a shorter one lacks as zero */
  void (*profile_push)(const struct kd_host *host, kd_device *device,
                       const kd_profile_record *records, uint32_t count,
                       uint32_t record_size);

  /* Gives output `index` of a launch its shape and memory, for kernels whose
   * definition has KD_KERNEL_DYNAMIC_OUTPUT; only inside `enqueue`, once for
   * each output.
   *
   * out_tensor  where the data goes; same place as launch->outputs[index]
   * Returns KD_OK, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT (bad index, dims). */
  kd_status (*set_output)(const struct kd_launch *launch, uint32_t index,
                          uint32_t rank, const int64_t *dims,
                          kd_tensor *out_tensor);

  const kd_node_table *node;
  const kd_graph_table *graph;

  /* A table of services that later versions or other hosts define, by name
   * ("keel.name/1"), or NULL. */
  const void *(*extension)(const struct kd_host *host, const char *name);

  /* `fail` and `log` of a text as it is: for texts of drivers, which may hold a
   * percent sign, and for languages that can't call a function of `...`. */
  kd_status (*fail_text)(kd_status code, const char *text);
  void (*log_text)(const struct kd_host *host, uint32_t level,
                   const char *text);
} kd_host;

#ifdef __cplusplus
}
#endif
#endif /* KD_HOST_H */
