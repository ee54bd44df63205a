/* services.c - the host's services, as the fault layer has them. */
#include "layers/layer.h"

/* The services themselves, the same for every plugin. */
static kd_host own;
static kd_node_table own_node, node_table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *host_allocate(const kd_host *host, uint64_t size,
                           uint64_t alignment) {
  if (keel_layers_enter("host.allocate") != KD_OK) return NULL;
  return own.allocate(host, size, alignment);
}

static const char *host_option(const kd_host *host, const char *name) {
  if (keel_layers_enter("host.option") != KD_OK) return NULL;
  return own.option(host, name);
}

static kd_status host_set_output(const kd_launch *launch, uint32_t index,
                                 uint32_t rank, const int64_t *dims,
                                 kd_tensor *out_tensor) {
  kd_status status = keel_layers_enter("host.set_output");
  return status == KD_OK ? own.set_output(launch, index, rank, dims, out_tensor)
                         : status;
}

static kd_status host_constant(const kd_node *node, uint32_t index,
                               kd_tensor *out_tensor) {
  kd_status status = keel_layers_enter("host.constant");
  return status == KD_OK ? own_node.constant(node, index, out_tensor) : status;
}

static kd_status host_attr_tensor(const kd_node *node, const char *name,
                                  kd_tensor *out_tensor) {
  kd_status status = keel_layers_enter("host.attr_tensor");
  return status == KD_OK ? own_node.attr_tensor(node, name, out_tensor)
                         : status;
}

static kd_status host_cache_get(const kd_host *host, const char *key,
                                void **out_data, uint64_t *out_size) {
  kd_status status = keel_layers_enter("host.cache_get");
  return status == KD_OK ? own.cache_get(host, key, out_data, out_size)
                         : status;
}

static kd_status host_cache_put(const kd_host *host, const char *key,
                                const void *data, uint64_t size) {
  kd_status status = keel_layers_enter("host.cache_put");
  return status == KD_OK ? own.cache_put(host, key, data, size) : status;
}

void keel_layers_wrap_host(kd_host *host) {
  keel_layer_settle();
  if (!settings.fault) return;
  pthread_mutex_lock(&lock);
  own = *host;
  own_node = node_table = *host->node;
  node_table.constant = host_constant;
  node_table.attr_tensor = host_attr_tensor;
  pthread_mutex_unlock(&lock);
  host->allocate = host_allocate;
  host->option = host_option;
  host->set_output = host_set_output;
  host->cache_get = host_cache_get;
  host->cache_put = host_cache_put;
  host->node = &node_table;
}
