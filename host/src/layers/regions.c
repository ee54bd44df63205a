/* regions.c - a device's compiler behind the layers. */
#include "layers/layer.h"

static kd_status claim(kd_device *device, const kd_graph *graph, kd_claim take,
                       void *context) {
  layer *l = keel_layer_of(device);
  CALL(l, "region.claim", l->regions.claim(device, graph, take, context));
  return KD_OK;
}

static kd_status compile(kd_device *device, const kd_compile *what,
                         kd_region **out_region) {
  layer *l = keel_layer_of(device);
  kd_region *made = NULL;
  CALL(l, "region.compile", l->regions.compile(device, what, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "region.compile returned KD_OK and no region");
  keel_layer_remember(l, made, OBJECT_REGION, device, 0);
  *out_region = made;
  return KD_OK;
}

static kd_status serialize(kd_region *region, void **out_blob,
                           uint64_t *out_size) {
  const object *o = keel_layer_find(region, OBJECT_REGION);
  REFUSE(o, "region.serialize: no such region");
  CALL(o->layer, "region.serialize",
       o->layer->regions.serialize(region, out_blob, out_size));
  return KD_OK;
}

static kd_status validate(kd_device *device, const void *blob, uint64_t size) {
  layer *l = keel_layer_of(device);
  CALL(l, "region.validate", l->regions.validate(device, blob, size));
  return KD_OK;
}

static kd_status load(kd_device *device, const kd_compile *what,
                      const void *blob, uint64_t size, kd_region **out_region) {
  layer *l = keel_layer_of(device);
  kd_region *made = NULL;
  CALL(l, "region.load", l->regions.load(device, what, blob, size, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "region.load returned KD_OK and no region");
  keel_layer_remember(l, made, OBJECT_REGION, device, 0);
  *out_region = made;
  return KD_OK;
}

static void destroy(kd_region *region) {
  const object *o = keel_layer_find(region, OBJECT_REGION);
  keel_layers_enter("region.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "region.destroy: there is no such region, or it was"
                      " destroyed");
    return;
  }
  layer *l = o->layer;
  keel_layer_forget(region, OBJECT_REGION);
  l->regions.destroy(region);
}

static kd_status enqueue(kd_region *region, kd_stream *stream,
                         const kd_launch *launch) {
  layer *l = keel_layer_of(launch->device);
  REFUSE(keel_layer_find(region, OBJECT_REGION),
         "region.enqueue: no such region");
  kd_status good =
      keel_layer_launch_good(l, "region.enqueue", stream, launch, false);
  if (good != KD_OK) return good;
  CALL_ON(stream, l, "region.enqueue",
          l->regions.enqueue(region, stream, launch));
  return KD_OK;
}

static uint64_t workspace(kd_region *region, const kd_launch *launch) {
  return keel_layer_of(launch->device)->regions.workspace(region, launch);
}

static uint32_t aliases(kd_region *region, const kd_alias **out_aliases) {
  const object *o = keel_layer_find(region, OBJECT_REGION);
  keel_layers_enter("region.aliases");
  if (o) return o->layer->regions.aliases(region, out_aliases);
  keel_layer_report(NULL, "region.aliases: no such region");
  return 0;
}

void keel_layer_wrap_regions(keel_plugin *plugin) {
  kd_region_table *to = &plugin->regions;
  if (!to->claim) return;
  to->claim = claim;
  to->compile = compile;
  to->destroy = destroy;
  to->enqueue = enqueue;
  if (to->workspace) to->workspace = workspace;
  if (to->aliases) to->aliases = aliases;
  if (!to->serialize) return;
  to->serialize = serialize;
  to->validate = validate;
  to->load = load;
}
