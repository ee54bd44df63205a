/* kd/region.h - a plugin's own compiler on whole parts of a graph.
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

/* One connected part of a graph that no path leaves and enters again: what a
 * plugin claims. Borrowed for the call. */
typedef struct kd_part {
  uint32_t struct_size;  /* sizeof(kd_part) as the plugin knew it */
  uint32_t flags;        /* none yet */
  const uint32_t *nodes; /* by index */
  uint32_t node_count;
  uint32_t reserved;
  const kd_cost *cost; /* what it should cost, or NULL */
} kd_part;

/* Takes one claim during `claim`. Nodes are connected by values that both read
 * or write; claims taken before count as one node each.
 * Returns KD_OK. Else the claim is dropped, and the plugin may go on:
 * KD_INVALID_ARGUMENT (not such a part, or a node is claimed already or can't be),
 * KD_UNIMPLEMENTED (the shape of an output depends on data: the host could not
 * make it before the launch). */
typedef kd_status (*kd_claim)(void *context, const kd_part *part);

/* What is to be compiled, or was, and how. Borrowed for the call. */
typedef struct kd_compile {
  uint32_t struct_size; /* sizeof(kd_compile) as the host knew it */
  uint32_t flags;       /* none yet */
  const kd_graph *graph;
  uint32_t
      numerics; /* KD_KERNEL_ bits of numerics that it may use; 0: strict */
  uint32_t reserved;
} kd_compile;

/* The compiler of a device. claim, compile, enqueue and destroy are needed;
 * serialize, validate and load come together or not at all. */
typedef struct kd_region_table {
  uint32_t struct_size; /* sizeof(kd_region_table) as the plugin knew it */
  uint32_t reserved;

  /* Looks at a graph and hands over claims. It sees every node of one function of
   * the program: those that the host would do itself (Reshape, Shape, If), those
   * whose types are not known yet, those that are placed on other devices. It may
   * take those that kd_graph_table.claimable names; not among them are random
   * numbers, which are the same on every device, and what works on resources,
   * sequences or strings. Who takes an If or a Loop takes its graphs with it; the
   * graphs of others are shown as functions of their own.
   * Borrowed for the call; any thread. Returns KD_OK also where it claims
   * nothing. */
  kd_status (*claim)(kd_device *device, const kd_graph *graph, kd_claim take,
                     void *context);

  /* Compiles one claimed part: its inputs and outputs are the graph's, in
   * order, constants among the inputs: the graph has their data, and each launch
   * their tensors. Dimensions of -1 are those of each launch, which the host tells
   * for outputs by the nodes' shape functions. May take long; any thread.
   * Returns KD_OK, KD_UNIMPLEMENTED (the host runs the part op by op),
   * KD_OUT_OF_MEMORY. */
  kd_status (*compile)(kd_device *device, const kd_compile *what,
                       KD_OWNED kd_region **out_region);

  /* Bytes of scratch a launch needs; NULL: none. */
  uint64_t (*workspace)(kd_region *region, const kd_launch *launch);

  /* Runs a region; the rules are kd_kernel_def.enqueue's; launch->node and
   * launch->data are NULL. Tensors are row-major; only inputs share memory, and
   * outputs with inputs as `aliases` says. */
  kd_status (*enqueue)(kd_region *region, kd_stream *stream,
                       const kd_launch *launch);

  /* Frees a region that no enqueued work uses. */
  void (*destroy)(kd_region *region);

  /* Gives the compiled form, which kd_host.release frees. It carries what it
   * was compiled for. The data of constants need not be in it: `load` has them.
   * Returns KD_OK, KD_UNIMPLEMENTED. */
  kd_status (*serialize)(kd_region *region, KD_OWNED void **out_blob,
                         uint64_t *out_size);

  /* Whether a blob, from anywhere and not to be trusted, still fits this
   * device and driver. Returns KD_OK, KD_INCOMPATIBLE, KD_DATA_LOSS. */
  kd_status (*validate)(kd_device *device, const void *blob, uint64_t size);

  /* Makes a region of a blob that `validate` took, without compiling anew.
   *
   * what  as `compile` got it
   * Returns KD_OK, KD_INCOMPATIBLE (it is of another graph; the host compiles),
   * KD_OUT_OF_MEMORY. */
  kd_status (*load)(kd_device *device, const kd_compile *what, const void *blob,
                    uint64_t size, KD_OWNED kd_region **out_region);

  /* Which outputs of a region lie where inputs do, as kd_kernel_def.aliases says
   * it of kernels. The list is valid until `destroy`. NULL: none does.
   * Returns how many there are. */
  uint32_t (*aliases)(kd_region *region, const kd_alias **out_aliases);
} kd_region_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_REGION_H */
