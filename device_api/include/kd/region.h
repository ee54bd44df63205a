/* kd/region.h - a plugin's own compiler for whole parts of a graph.
 *
 * Level 3 of the device ABI. The host shows a graph; the plugin claims
 * connected parts; each claimed part becomes one compiled region that is
 * enqueued like a kernel. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_REGION_H
#define KD_REGION_H

#include <kd/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The compiled part serves all sizes of the dimensions that are open (-1) in the
 * graph that `claim` sees. The host may compile it once, as it is shown then, and
 * use it also where it plans for given sizes, without showing its nodes again.
 * Without this hint the host asks again when the sizes are known. */
#define KD_PART_ANY_SHAPE 0x1000000u

/* A claim: a connected part of a graph that no path leaves and enters again.
 * Borrowed for the call. */
typedef struct kd_part {
  uint32_t struct_size;  /* sizeof(kd_part) as the plugin knew it */
  uint32_t flags;        /* KD_PART_* */
  const uint32_t *nodes; /* their indices in the graph */
  uint32_t node_count;
  uint32_t reserved;
  const kd_cost *cost; /* its estimated cost, or NULL */
} kd_part;

/* Takes one claim during `claim`. Nodes are connected by values, other than
 * constants, that both read or write; each claim taken before counts as one
 * node.
 * Returns KD_OK. After any other status the claim is dropped, and the plugin
 * may go on: KD_INVALID_ARGUMENT (not such a part, or a node that is already
 * claimed or not claimable), KD_UNIMPLEMENTED (an unknown flag, or the shape of
 * an output depends on data, so that the host could not allocate it before the
 * launch), KD_FAILED_PRECONDITION (the graph's claims span too much to check
 * this one). */
typedef kd_status (*kd_claim)(void *context, const kd_part *part);

/* The graph to compile, or the graph that a blob was compiled from, and the
 * numerics. Borrowed for the call. */
typedef struct kd_compile {
  uint32_t struct_size; /* sizeof(kd_compile) as the host knew it */
  uint32_t flags;       /* none yet */
  const kd_graph *graph;
  uint32_t numerics; /* KD_KERNEL_* numerics it may use; 0: strict */
  uint32_t reserved;
} kd_compile;

/* The compiler of a device. claim, compile, enqueue and destroy are required;
 * serialize, validate and load are all set or all NULL. */
typedef struct kd_region_table {
  uint32_t struct_size; /* sizeof(kd_region_table) as the plugin knew it */
  uint32_t reserved;

  /* Looks at a graph and hands over claims. It sees every node of one function
   * of the program, including those that the host would run itself (Reshape,
   * Shape, If), those whose types are not known yet, and those placed on other
   * devices. It may claim the nodes that kd_graph_table.claimable allows. These
   * exclude random numbers, which are the same on every device, and ops on
   * resources, sequences or strings. Claiming an If or a Loop claims its
   * graphs, too; the graphs of other nodes are shown as functions of their own.
   * The graph is borrowed for the call; any thread.
   * Returns KD_OK, even if it claims nothing; after any other status the
   * program is not planned. */
  kd_status (*claim)(kd_device *device, const kd_graph *graph, kd_claim take,
                     void *context);

  /* Compiles one claimed part. Its inputs and outputs are the graph's, in
   * order. Constants are among the inputs: the graph has their data, and each
   * launch their tensors. Dimensions of -1 become known at each launch; those
   * of outputs come from the nodes' shape functions. May take long; any thread.
   * Returns KD_OK, KD_UNIMPLEMENTED (the host runs the part op by op),
   * KD_OUT_OF_MEMORY. */
  kd_status (*compile)(kd_device *device, const kd_compile *what,
                       KD_OWNED kd_region **out_region);

  /* Bytes of scratch a launch needs; NULL: none. */
  uint64_t (*workspace)(kd_region *region, const kd_launch *launch);

  /* Runs a region, as kd_kernel_def.enqueue runs a kernel. launch->node and
   * launch->data are NULL. Tensors are row-major. Inputs may share memory;
   * outputs share it only with inputs, as `aliases` says. */
  kd_status (*enqueue)(kd_region *region, kd_stream *stream,
                       const kd_launch *launch);

  /* Frees a region that no enqueued work uses. */
  void (*destroy)(kd_region *region);

  /* Returns the compiled form, in memory from kd_host.allocate that the host
   * releases. The blob records what it was compiled for. It need not contain
   * the constants' data, which `load` gets.
   * Returns KD_OK, KD_UNIMPLEMENTED. */
  kd_status (*serialize)(kd_region *region, KD_OWNED void **out_blob,
                         uint64_t *out_size);

  /* Whether a blob, from anywhere and not to be trusted, fits this device and
   * driver. Returns KD_OK, KD_INCOMPATIBLE, KD_DATA_LOSS (damaged). */
  kd_status (*validate)(kd_device *device, const void *blob, uint64_t size);

  /* Makes a region from a blob that `validate` accepted, without compiling it
   * again.
   *
   * what  as `compile` got it
   * Returns KD_OK, KD_INCOMPATIBLE (the blob is of another graph; the host
   * compiles), KD_OUT_OF_MEMORY. */
  kd_status (*load)(kd_device *device, const kd_compile *what, const void *blob,
                    uint64_t size, KD_OWNED kd_region **out_region);

  /* Which outputs of a region share the memory of inputs, as
   * kd_kernel_def.aliases says of kernels. The list is valid until `destroy`.
   * NULL: none does.
   * Returns how many there are. */
  uint32_t (*aliases)(kd_region *region, const kd_alias **out_aliases);
} kd_region_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_REGION_H */
