/* services.c - the host's services, as the fault layer has them. */
#include "layers/layer.h"

/* The services themselves, the same for every plugin. */
static kd_host own;
static kd_node_table own_node, node_table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *host_allocate(uint64_t size, uint64_t alignment) {
  if (keel_layers_enter("host.allocate") != KD_OK) return NULL;
  return own.allocate(size, alignment);
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

void keel_layers_wrap_host(kd_host *host) {
  keel_layer_settle();
  if (!settings.fault) return;
  pthread_mutex_lock(&lock);
  own = *host;
  own_node = node_table = *host->node;
  node_table.constant = host_constant;
  pthread_mutex_unlock(&lock);
  host->allocate = host_allocate;
  host->option = host_option;
  host->set_output = host_set_output;
  host->node = &node_table;
}
