/* shared.h - forms of constants that kernels share, and kernels that nodes share: a program whose sizes
 * change has each node once for each set of sizes, and all of them read the same weights. */
#ifndef KEEL_CPU_SHARED_H
#define KEEL_CPU_SHARED_H

#include "cpu.h"

#define CPU_SHARE_NUMBERS 8

/* What a form depends on. */
typedef struct cpu_share_key {
  uint64_t constant; /* kd_node_table.constant_id; 0: the form is not shared */
  const char *form;  /* a literal of the file that makes it */
  int64_t numbers[CPU_SHARE_NUMBERS];
} cpu_share_key;

typedef struct cpu_shared {
  void *data, *more;                  /* more: NULL, or another part of it */
  void (*destroy)(kd_kernel *kernel); /* of data that is a kernel; or NULL */
  cpu_share_key key;
  uint64_t users;
  struct cpu_shared *next;
} cpu_shared;

/* The number of a node's constant input; 0: not a constant, or the host has no numbers. */
uint64_t cpu_constant_id(const kd_node *node, uint32_t input);

/* Whether an input is a constant. */
bool cpu_is_constant(const kd_node *node, uint32_t input);

/* A form that there is, with one user more; NULL: it is to be made. Any thread. */
cpu_shared *cpu_share_find(const cpu_share_key *key);

/* A form that has been made, of memory for free(): others find it. If another thread was first, the
 * caller gets that one, and the memory is freed. NULL: no memory, or data is NULL; all is freed. */
cpu_shared *cpu_share_add(const cpu_share_key *key, void *data, void *more);

/* Packs a constant into memory for free(); more: NULL, or another part of the form. False: no
 * memory; the caller frees what there is. */
typedef bool (*cpu_share_pack)(void *context, const kd_tensor *constant,
                               void **out_data, void **out_more);

/* The form of a node's constant input: the one that others have, or a new one. key: but for the
 * constant's number. Returns KD_OK, KD_NOT_FOUND (not a constant), KD_OUT_OF_MEMORY. */
kd_status cpu_share_get(const kd_node *node, uint32_t input, cpu_share_key *key,
                        cpu_share_pack pack, void *context,
                        cpu_shared **out_shared);

/* A kernel that holds nothing but what it made of constants, so that all nodes of the same ones can
 * have it. Its struct begins with the cpu_shared that it is. */
typedef struct cpu_kernel_kind {
  size_t size;
  void (*make)(const kd_node *node, kd_kernel *kernel); /* all is 0 before */
  void (*destroy)(kd_kernel *kernel);
} cpu_kernel_kind;

/* The kernel of a key that there is, or a new one, for cpu_destroy_shared. */
kd_status cpu_share_kernel(const cpu_share_key *key,
                           const cpu_kernel_kind *kind, const kd_node *node,
                           kd_kernel **out_kernel);

/* The caller is done with it; the last user frees it. NULL: nothing. */
void cpu_share_drop(cpu_shared *shared);

#endif /* KEEL_CPU_SHARED_H */
