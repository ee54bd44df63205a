/* shared.c - forms of constants that kernels share, and kernels that nodes share. */
#include "shared.h"

#include <pthread.h>

#include "kernels/kernels.h"

#define BUCKETS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_shared *buckets[BUCKETS];

uint64_t cpu_constant_id(const kd_node *node, uint32_t input) {
  const kd_node_table *read = cpu_host->node;
  return KD_HAS(read, constant_id) ? read->constant_id(node, input) : 0;
}

bool cpu_is_constant(const kd_node *node, uint32_t input) {
  kd_tensor tensor;
  return cpu_constant_id(node, input) ||
         cpu_host->node->constant(node, input, &tensor) == KD_OK;
}

static cpu_shared **bucket_of(const cpu_share_key *key) {
  return &buckets[key->constant % BUCKETS];
}

static bool is_key(const cpu_share_key *a, const cpu_share_key *b) {
  return a->constant == b->constant && !strcmp(a->form, b->form) &&
         !memcmp(a->numbers, b->numbers, sizeof a->numbers);
}

/* With the lock held. */
static cpu_shared *shared_find(const cpu_share_key *key) {
  cpu_shared *at = *bucket_of(key);
  while (at && !is_key(&at->key, key))
    at = at->next;
  if (at) at->users++;
  return at;
}

cpu_shared *cpu_share_find(const cpu_share_key *key) {
  if (!key->constant) return NULL;
  pthread_mutex_lock(&lock);
  cpu_shared *there = shared_find(key);
  pthread_mutex_unlock(&lock);
  return there;
}

static void shared_free(cpu_shared *shared) {
  if (shared->destroy)
    shared->destroy(shared->data);
  else
    free(shared->data);
  free(shared->more);
  free(shared);
}

/* Others find it from here on, unless one is there, which is returned then. */
static cpu_shared *publish(cpu_shared *made) {
  if (!made->key.constant) return made;
  pthread_mutex_lock(&lock);
  cpu_shared *there = shared_find(&made->key), **bucket = bucket_of(&made->key);
  if (!there) {
    made->next = *bucket;
    *bucket = made;
  }
  pthread_mutex_unlock(&lock);
  if (!there) return made;
  shared_free(made);
  return there;
}

cpu_shared *cpu_share_add(const cpu_share_key *key, void *data, void *more) {
  cpu_shared *made = data ? malloc(sizeof *made) : NULL;
  if (!made) {
    free(data);
    free(more);
    return NULL;
  }
  *made = (cpu_shared){.data = data, .more = more, .key = *key, .users = 1};
  return publish(made);
}

kd_status cpu_share_kernel(const cpu_share_key *key,
                           const cpu_kernel_kind *kind, const kd_node *node,
                           kd_kernel **out_kernel) {
  cpu_shared *made = cpu_share_find(key);
  if (!made) {
    kd_kernel *kernel = calloc(1, kind->size);
    made = kernel ? malloc(sizeof *made) : NULL;
    if (!made) {
      free(kernel);
      return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel");
    }
    kind->make(node, kernel);
    *(cpu_shared **)(void *)kernel = made;
    *made = (cpu_shared){
        .data = kernel, .destroy = kind->destroy, .key = *key, .users = 1};
    made = publish(made);
  }
  *out_kernel = made->data;
  return KD_OK;
}

void cpu_destroy_shared(kd_kernel *kernel) {
  if (kernel) cpu_share_drop(*(cpu_shared **)(void *)kernel);
}

kd_status cpu_share_get(const kd_node *node, uint32_t input, cpu_share_key *key,
                        cpu_share_pack pack, void *context,
                        cpu_shared **out_shared) {
  kd_tensor constant;
  void *data = NULL, *more = NULL;
  key->constant = cpu_constant_id(node, input);
  *out_shared = cpu_share_find(key);
  if (*out_shared) return KD_OK;
  kd_status status = cpu_host->node->constant(node, input, &constant);
  if (status != KD_OK) return status;
  if (pack(context, &constant, &data, &more)) {
    *out_shared = cpu_share_add(key, data, more);
  } else {
    free(data);
    free(more);
  }
  return *out_shared ? KD_OK
                     : FAIL(KD_OUT_OF_MEMORY, "no memory for packed weights");
}

void cpu_share_drop(cpu_shared *shared) {
  if (!shared) return;
  pthread_mutex_lock(&lock);
  bool last = !--shared->users;
  if (last && shared->key.constant)
    for (cpu_shared **at = bucket_of(&shared->key); *at; at = &(*at)->next)
      if (*at == shared) {
        *at = shared->next;
        break;
      }
  pthread_mutex_unlock(&lock);
  if (last) shared_free(shared);
}
