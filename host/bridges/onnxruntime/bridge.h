/* bridge.h - what the files of the ONNX Runtime bridge share.
 *
 * library.c    entry points; which ONNX Runtime, which Keel
 * factory.c    Keel's devices, shown to ONNX Runtime; making providers
 * options.c    what a session may set
 * provider.c   one provider: its claims, what it compiles
 * question.c   whether a device takes a node
 * partition.c  which claimed nodes become one
 * compile.c    a partition as a plan
 * context.c    compiled partitions in models
 * translate.c  nodes to Keel's ops
 * attributes.c the nodes' attributes
 * lists.c      what graphs and nodes hold
 * values.c     types, names and tensors
 * compute.c    running a partition
 * memory.c     addresses of values that are on a device
 * transfer.c   copies between these and host memory
 * status.c     errors
 *
 * All functions that return an ort_status * return NULL on success. */
#ifndef KEEL_ORT_BRIDGE_H
#define KEEL_ORT_BRIDGE_H

#include <keel/keel.h>

#include "ort_abi.h"

#define PROVIDER_NAME "KeelExecutionProvider"
#define VENDOR_ID     0x4b45u /* "KE": PCI has given it to nobody */
#define RANK_MOST     16      /* Keel's */
#define GRAPHS_MOST   4       /* of a node; ONNX's have two at most */

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof *(ARRAY))

/* Returns what failed, if it did. */
#define TRY(CALL)                 \
  do {                            \
    ort_status *status_ = (CALL); \
    if (status_) return status_;  \
  } while (0)
/* The same for a call of Keel. */
#define TRY_KEEL(CALL)                                  \
  do {                                                  \
    keel_status status_ = (CALL);                       \
    if (status_ != KD_OK) return keel_failure(status_); \
  } while (0)

/* ---- library.c ------------------------------------------------------------ */

/* The tables of the ONNX Runtime of this process, since CreateEpFactories. */
extern const ort_api *ort;
extern const ort_ep_api *ort_ep_functions;
/* Whether a node that is made of an op with bodies gets the values that the
 * bodies take from around it: since ONNX Runtime 1.27. */
extern bool ort_gives_captures;

/* An open context of Keel, shared by those who want as many threads. */
typedef struct runtime {
  struct runtime *next;
  keel_context *context;
  int32_t workers; /* of keel_context_params */
  uint32_t users;
} runtime;

/* The runtime with so many workers, which is opened if nobody has it yet. */
ort_status *runtime_acquire(int32_t workers, runtime **out);
/* One user more. Returns it. */
runtime *runtime_retain(runtime *one);
/* Closes it after the last user. NULL does nothing. */
void runtime_release(runtime *one);

/* Writes a line to ONNX Runtime's log. */
void log_line(const ort_logger *logger, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- status.c --------------------------------------------------------------- */

ort_status *failure(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
ort_status *no_memory(void);
/* What Keel's last call on this thread failed with: its whole text. */
ort_status *keel_failure(keel_status status);

/* ---- factory.c ---------------------------------------------------------------- */

/* `held` is the factory's from now on. */
ort_status *factory_create(runtime *held, const ort_logger *logger,
                           ort_ep_factory **out);
/* It goes with the last of its providers and allocators. */
void factory_release(ort_ep_factory *base);
/* One user more, who calls factory_release. */
void factory_retain(ort_ep_factory *base);
/* The kernels that copy, of a factory with a device that has memory of its own;
 * else NULL. */
const ort_kernel_registry *factory_kernels(const ort_ep_factory *base);

/* ---- options.c ---------------------------------------------------------------- */

typedef struct options {
  char device[64]; /* "": the one that the session was given */
  int32_t workers; /* of keel_context_params */
  char *trace;     /* a path, or NULL */
  /* a model in which the partitions are compiled is to be written, and with the
   * programs in it, not beside it */
  bool context_write, context_embed;
  char *context_path;   /* of that model, or NULL */
  char *context_prefix; /* of the partitions' names, or NULL */
} options;

/* Reads a session's options; refuses those that there are not. */
ort_status *options_read(const ort_session_options *session, options *out);
void options_free(options *one);

/* ---- provider.c --------------------------------------------------------------- */

/* `held` is the provider's on success, and so is what `given` points to, which
 * is empty then. `device` names one of its devices. */
ort_status *provider_create(ort_ep_factory *maker, runtime *held,
                            options *given, const char *device,
                            const ort_logger *logger, ort_ep **out);
void provider_destroy(ort_ep *base);

/* ---- partition.c -------------------------------------------------------------- */

/* A graph's nodes, 0 to count - 1, and what they need of one another. */
typedef struct partition_edge {
  uint32_t from, to; /* `to` reads what `from` makes */
} partition_edge;

#define NO_GROUP UINT32_MAX

/* Puts claimed nodes into groups, numbered from 0, as few as an order of all
 * nodes allows: no path leaves a group and comes back, and contracting all
 * groups leaves a graph without cycles. Others are in NO_GROUP.
 * Returns the number of groups; NO_GROUP: no memory, or the edges have a
 * cycle. */
uint32_t partition(uint32_t count, const bool *claimed,
                   const partition_edge *edges, size_t edge_count,
                   uint32_t *out_group);

/* ---- values.c ------------------------------------------------------------------- */

/* What is known of a value before a run. */
typedef struct value_type {
  kd_dtype dtype;
  uint32_t rank; /* or KEEL_RANK_UNKNOWN */
  int64_t dims[RANK_MOST];
} value_type;

/* Fails for a tensor of strings, which never crosses. */
ort_status *value_no_strings(const ort_value_info *value);

/* Fails for what is not a tensor of a type that can cross. */
ort_status *value_type_get(const ort_value_info *value, value_type *out);

/* "" for an absent value, which may be NULL. */
ort_status *value_name(const ort_value_info *value, const char **out);

/* What a value is. */
typedef struct tensor_view {
  kd_dtype dtype;
  uint32_t rank;
  const int64_t *dims; /* the value's */
  const void *data;    /* may be NULL where there are no elements */
} tensor_view;

ort_status *value_look(const ort_value *value, tensor_view *out);

/* A tensor over the value's memory, which must not change while it lives. */
ort_status *view_wrap(keel_context *context, const tensor_view *seen,
                      KD_OWNED keel_tensor **out);
ort_status *value_wrap(keel_context *context, const ort_value *value,
                       KD_OWNED keel_tensor **out);
/* A tensor with a copy of the value's data. */
ort_status *value_copy(keel_context *context, const ort_value *value,
                       KD_OWNED keel_tensor **out);

/* The type that ONNX Runtime calls by this number; KD_NONE: none that can
 * cross. */
kd_dtype dtype_of_ort(int type);

/* Numbers that are found by name. Names are borrowed. */
typedef struct name_entry {
  const char *name;
  uint32_t number;
} name_entry;

typedef struct name_map {
  name_entry *slots; /* open addressing; a free one has no name */
  uint32_t capacity, count;
} name_map;

/* NULL: no such name. */
name_entry *name_find(const name_map *map, const char *name);
/* The entry of a name, which is added (zeroed) if it is new. NULL: no memory.
 * Valid until the next name is added. */
name_entry *name_add(name_map *map, const char *name);
void name_free(name_map *map);

/* ---- lists.c -------------------------------------------------------------------- */

/* Lists that ONNX Runtime copies out of its graphs; the caller frees `items`. */
typedef struct value_list {
  const ort_value_info **items;
  size_t count;
} value_list;

typedef struct node_list {
  const ort_node **items;
  size_t count;
} node_list;

typedef struct attr_list {
  const ort_attr **items;
  size_t count;
} attr_list;

typedef struct graph_list {
  const ort_graph *items[GRAPHS_MOST];
  const char *names[GRAPHS_MOST]; /* of the attributes */
  size_t count;
} graph_list;

/* Each sets `items` to NULL on failure. */
ort_status *graph_nodes(const ort_graph *owner, node_list *out);
ort_status *graph_inputs(const ort_graph *owner, value_list *out);
ort_status *graph_outputs(const ort_graph *owner, value_list *out);
ort_status *node_inputs(const ort_node *owner, value_list *out);
ort_status *node_outputs(const ort_node *owner, value_list *out);
ort_status *node_captures(const ort_node *owner, value_list *out);
ort_status *node_attributes(const ort_node *owner, attr_list *out);
/* Fails if the node has more than GRAPHS_MOST. */
ort_status *node_graphs(const ort_node *node, graph_list *out);

/* ---- attributes.c --------------------------------------------------------------- */

/* Copies an attribute's data out; the caller frees it. A byte of 0 follows. */
ort_status *attribute_data(const ort_attr *attr, int type, void **out,
                           size_t *out_size);

/* The attributes of a node, but for graphs. */
typedef struct attributes {
  keel_attr *list; /* with room for the graphs */
  uint32_t count;
  void **memory; /* what they point to; as many entries as `list` */
} attributes;

/* On failure, too, attributes_free frees `out`. */
ort_status *attributes_read(keel_context *context, const ort_node *node,
                            attributes *out);
void attributes_free(attributes *one);

/* ---- translate.c ---------------------------------------------------------------- */

/* The opsets that a model imports. */
typedef struct opsets {
  const char **domains;
  int64_t *versions;
  size_t count;
} opsets;

ort_status *opsets_read(const ort_graph *graph, opsets *out);
void opsets_free(opsets *one);

#define SIZES_SEEN 6

/* What takes the place of sizes that are open, in a question. */
typedef struct stand_in {
  uint32_t rank; /* of what has no known rank */
  int64_t size;  /* of each open dimension; -1: they stay open, but have a
                    rank; 0: nothing does */
} stand_in;

/* A program, or the body of an op in one, that is being made of a graph's
 * nodes. */
typedef struct translation {
  struct translation *outer; /* a body's; NULL: a program */
  const opsets *imports;
  keel_context *context;
  keel_builder *builder;
  name_map values; /* name to keel_value */
  /* A question about a node: a value that is not known becomes an input, and
   * constants are not copied, as the program is gone before the graph. */
  bool question;
  stand_in sizes;           /* of a question */
  bool unranked;            /* an input has no known rank */
  bool open;                /* or has an open dimension */
  int64_t seen[SIZES_SEEN]; /* sizes of dimensions of inputs and constants */
  uint32_t seen_count;
} translation;

/* Begins a program or, if `question` is not NULL, a question with these sizes.
 * On failure, too, translation_end ends it. */
ort_status *translation_begin(translation *one, keel_context *context,
                              const opsets *imports, const char *name,
                              const stand_in *question);
void translation_end(translation *one);
/* Adds all of a graph; its inputs and outputs are those of the node that it was fused to, if any. */
ort_status *translate_graph(translation *one, const ort_graph *graph,
                            const ort_node *fused);
/* Adds an op, an output. */
ort_status *translate_node(translation *one, const ort_node *node);
ort_status *translate_output(translation *one, const ort_value_info *value);

/* ---- question.c ----------------------------------------------------------------- */

/* Where a session's nodes are to run. */
typedef struct target {
  runtime *held;
  keel_context *context; /* its */
  keel_device *device;
  const char *name; /* the device's; lives as long as it */
  const ort_logger *logger;
} target;

/* Whether the device runs a node by itself. If not, the reason goes to the
 * log. */
bool target_takes(const target *one, const opsets *imports,
                  const ort_node *node);

/* ---- context.c ------------------------------------------------------------------ */

#define CONTEXT_FORMAT 1 /* of the nodes' attributes; a reader knows one */

/* Whether a node is a compiled partition that Keel has written. */
ort_status *context_is_ours(const ort_node *node, bool *out);
/* Makes the node that stands for a partition, whose program is compiled for the
 * device of that name, and writes its file if it has one. */
ort_status *context_write(const options *given, const char *device,
                          const keel_program *program, const ort_graph *graph,
                          const ort_node *fused, ort_node **out);
/* The program of such a node of a graph, for the session's device. */
ort_status *context_read(const options *given, const target *to,
                         const ort_graph *graph, const ort_node *node,
                         KD_OWNED keel_program **out);

/* ---- compatible.c --------------------------------------------------------------- */

/* What compiled models for a device depend on. The caller frees it. */
ort_status *compatible_text(const keel_device *device, char **out);
/* What such a text means here: OrtCompiledModelCompatibility_*, and the device
 * that the model is for; NULL: unknown. */
ort_status *compatible_ask(keel_context *context, const char *text,
                           keel_device **out_device, int *out);

/* ---- compile.c ------------------------------------------------------------------ */

/* A partition, whose nodes are `graph`'s, as what runs it. `out_context`, if a
 * compiled model is to be written, receives the node that it has for it. */
ort_status *compile_partition(const options *given, const target *to,
                              const ort_graph *graph, const ort_node *fused,
                              ort_compute_info **out, ort_node **out_context);

/* ---- memory.c ------------------------------------------------------------------- */

/* An allocator of addresses for values on a device of `held`, which it
 * retains. `described` lives as long as it. */
ort_status *memory_create(runtime *held, keel_device *device,
                          const ort_memory_info *described,
                          ort_allocator **out);
void memory_destroy(ort_allocator *base);

/* Whose memory an address is in. */
typedef struct memory_place {
  runtime *held;
  keel_device *device;
} memory_place;

/* Whether the address is such an allocator's, and whose; `out` may be NULL. */
bool memory_at(const void *address, memory_place *out);

/* Puts a value of `held` there, both retained: in place of what was there. */
ort_status *memory_put(const void *address, runtime *held, keel_tensor *value);

/* What is looked for. */
typedef struct memory_want {
  const void *address;
  uint64_t size; /* of the value, in bytes; not 0 */
  runtime *held; /* whose value it is to be */
  kd_dtype dtype;
  uint32_t rank;
  const int64_t *dims;
} memory_want;

/* The value that was put there, or one that is made of the bytes that are. */
ort_status *memory_get(const memory_want *want, KD_OWNED keel_tensor **out);
/* Copies the bytes that are there to host memory; where nothing was put,
 * `target` stays as it is. */
ort_status *memory_read(const void *address, void *target, uint64_t size);

/* ---- transfer.c ----------------------------------------------------------------- */

ort_status *transfer_create(ort_data_transfer **out);
/* The caller releases the registry. */
ort_status *transfer_kernels(ort_kernel_registry **out);

/* ---- terminate.c ---------------------------------------------------------- */

/* A run that ends where ONNX Runtime's run options say so. */
typedef struct terminable {
  struct terminable *next, **before;
  const ort_run_options *options;
  keel_cancel *cancel;
  bool seen, ended;
} terminable;

/* A run of a session, which its target stands for, begins and ends on this thread. */
void terminate_run_begins(const target *of, const ort_run_options *given);
void terminate_run_ends(const target *of);

/* Begins to look whether a run of a partition is to end: where its session's run has
 * begun on this thread, or is the only one of the session. Returns its token, or NULL:
 * the run is not one that can be ended. terminate_end follows. */
keel_cancel *terminate_begin(terminable *run, const target *of);
void terminate_end(terminable *run);

/* ---- compute.c ------------------------------------------------------------------ */

#define NO_PORT UINT32_MAX

/* Which of the partition's inputs and outputs each of the plan's is; NULL: the
 * same. */
typedef struct port_map {
  uint32_t *inputs, *outputs; /* an output may be NO_PORT: nobody wants it */
} port_map;

/* `plan`, and what `ports` points to, are the info's from now on, also if the
 * call fails. */
ort_status *compute_create(const target *to, keel_plan *plan, port_map ports,
                           ort_compute_info **out);
void compute_destroy(ort_compute_info *base);

#endif /* KEEL_ORT_BRIDGE_H */
