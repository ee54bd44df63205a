/* abi.c - sizes, flags and enums that the other side does not know: what keeps
 * old plugins alive in new hosts. */
#include "layers/slots.h"
#include "rules/plugin/property.h"
#include "rules/rules.h"

/* Sizes of ABI 0.10, the first version: frozen. A plugin of a later one still
 * meets hosts and structs of these. */
#define HOST_010   176u
#define LAUNCH_010 136u
#define INFO_010   96u
#define STATS_010  40u
#define COST_010   32u

KD_STATIC_ASSERT(sizeof(void *) != 8 || KD_ABI_MINOR > 10 ||
                     (sizeof(kd_host) == HOST_010 &&
                      sizeof(kd_launch) == LAUNCH_010 &&
                      sizeof(kd_device_info) == INFO_010 &&
                      sizeof(kd_memory_stats) == STATS_010 &&
                      sizeof(kd_property) == PROPERTY_010 &&
                      sizeof(kd_cost) == COST_010),
                 "the sizes of 0.10");

/* ---- hosts of other sizes ---------------------------------------------------------- */

/* Opens the plugin with a host table of its own, does a little, closes. */
static void open_with(const kd_host *host, const char *what) {
  kd_device *device = NULL;
  kc_load();
  kd_status status =
      KC_CALL(kd_status, kp.p.open(host, &kp.instance), "open(%s)", what);
  if (!kc_check(status == KD_OK, "open by %s returned %s: %s", what,
                kd_status_name(status), kc_message()))
    return;
  uint32_t count =
      KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count");
  if (count > kc.device) {
    status =
        KC_CALL(kd_status, kp.p.device_open(kp.instance, kc.device, &device),
                "device_open(%u)", kc.device);
    if (kc_check(status == KD_OK, "device_open under %s returned %s", what,
                 kd_status_name(status))) {
      kd_buffer *buffer = NULL;
      void *address = NULL;
      char bytes[64] = "abc", back[64];
      kc_ok(kc_allocate(device, 0, 64, &buffer, &address), "allocate");
      kc_ok(kp.m.copy_in(device, NULL, bytes, buffer, 0, 64), "copy_in");
      kc_ok(kp.m.copy_out(device, NULL, buffer, 0, back, 64), "copy_out");
      kc_check(!strcmp(back, "abc"), "copies under %s are wrong", what);
      kp.m.release(device, buffer);
      KC_DO(kp.p.device_close(device), "device_close");
    }
  }
  KC_DO(kp.p.close(kp.instance), "close");
}

/* Behind the table lies a page that may not be touched. */
static void abi_host_smaller(void) {
  size_t size = HOST_010;
  kd_host *host = kc_fenced(size);
  memcpy(host, kc_services(), size);
  host->struct_size = (uint32_t)size;
  open_with(host, "a host of the first version");
}

static void abi_host_larger(void) {
  char *room = kc_lend(sizeof(kd_host) + 256);
  memcpy(room, kc_services(), sizeof(kd_host));
  memset(room + sizeof(kd_host), 0xdb, 256);
  ((kd_host *)(void *)room)->struct_size = sizeof(kd_host) + 256;
  open_with((kd_host *)(void *)room, "a host whose table is larger");
}

static void abi_host_newer(void) {
  kd_host *host = kc_services_copy();
  host->abi_version = KD_VERSION(KD_ABI_MAJOR, KD_ABI_MINOR + 37);
  open_with(host, "a host of a later minor version");
}

static void abi_host_reserved(void) {
  kd_host *host = kc_services_copy();
  host->reserved = 0xffffffffu;
  open_with(host, "a host that uses a reserved field");
}

static void abi_node_table_larger(void) {
  kd_host *host = kc_services_copy();
  char *room = kc_lend(sizeof(kd_node_table) + 128);
  memcpy(room, host->node, sizeof(kd_node_table));
  memset(room + sizeof(kd_node_table), 0xdb, 128);
  ((kd_node_table *)(void *)room)->struct_size = sizeof(kd_node_table) + 128;
  host->node = (const kd_node_table *)(const void *)room;
  open_with(host, "a host whose node table is larger");
}

/* A struct with what may lie behind it. */
#define ROOM(type) (sizeof(type) + 256)

/* ---- out-structs --------------------------------------------------------------------- */

static void abi_info_bounded(void) {
  static const uint32_t sizes[] = {INFO_010, sizeof(kd_device_info)};
  kc_ok(kc_open(), "open");
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    if (!kc_case("size=%u", sizes[i])) continue;
    kd_device_info *info = kc_bounded(sizes[i], sizes[i], ROOM(kd_device_info));
    kc_ok(KC_CALL(kd_status, kp.p.device_info(kp.instance, kc.device, info),
                  "device_info(struct_size %u)", sizes[i]),
          "device_info");
    kc_check(kc_bounded_whole(info, sizes[i], ROOM(kd_device_info)),
             "device_info wrote past struct_size %u", sizes[i]);
    kc_check(info->struct_size <= sizes[i],
             "device_info set struct_size from %u to %u", sizes[i],
             info->struct_size);
  }
}

static void abi_info_larger(void) {
  kc_ok(kc_open(), "open");
  kd_device_info *info =
      kc_bounded(ROOM(kd_device_info), sizeof *info, ROOM(kd_device_info));
  kd_status status =
      KC_CALL(kd_status, kp.p.device_info(kp.instance, kc.device, info),
              "device_info(struct_size larger than known)");
  kc_check(status == KD_OK, "a larger kd_device_info was refused: %s",
           kc_message());
  kc_check(kc_bounded_whole(info, sizeof *info, ROOM(kd_device_info)) ||
               kp.p.abi_version > KD_ABI_VERSION,
           "device_info wrote behind the fields that it knows");
}

static void abi_stats_bounded(void) {
  if (!kp.m.stats) kc_unclaimed("memory.stats is NULL");
  kd_memory_stats *stats =
      kc_bounded(STATS_010, STATS_010, ROOM(kd_memory_stats));
  kc_ok(KC_CALL(kd_status, kp.m.stats(kc_device(), 0, stats),
                "memory.stats(struct_size %u)", STATS_010),
        "memory.stats");
  kc_check(kc_bounded_whole(stats, STATS_010, ROOM(kd_memory_stats)),
           "memory.stats wrote past struct_size %u", STATS_010);
}

static void abi_cost_bounded(void) {
  kc_unary unary;
  kc_unary_need(64, &unary);
  if (!unary.def->cost) {
    const char *op = unary.def->op;
    kc_unary_free(&unary);
    kc_unclaimed("%s has no cost", op);
  }
  kd_cost *cost = kc_bounded(COST_010, COST_010, ROOM(kd_cost));
  kc_ok(
      KC_CALL(kd_status, unary.def->cost(kc_device(), &unary.node->node, cost),
              "%s.cost(struct_size %u)", unary.def->op, COST_010),
      "cost");
  kc_check(kc_bounded_whole(cost, COST_010, ROOM(kd_cost)),
           "cost wrote past struct_size %u", COST_010);
  kc_unary_free(&unary);
}

/* ---- launches ---------------------------------------------------------------------------- */

static void launch_with(uint32_t size, bool garbage, const char *what) {
  kc_unary unary;
  kc_unary_need(300, &unary);
  kc_run *run = kc_unary_run(&unary);
  size_t known = size < sizeof(kd_launch) ? size : sizeof(kd_launch);
  char *room = kc_fenced(size);
  memcpy(room, &run->launch, known);
  if (garbage) memset(room + sizeof(kd_launch), 0xdb, size - sizeof(kd_launch));
  ((kd_launch *)(void *)room)->struct_size = size;
  kd_stream *stream = kc_stream_or_none();
  kd_status status =
      KC_CALL(kd_status,
              run->def->enqueue(run->kernel, stream,
                                (const kd_launch *)(const void *)room),
              "enqueue(%s)", what);
  kc_check(status == KD_OK, "a launch of %s was refused: %s", what,
           kc_message());
  kc_drain(stream);
  if (status == KD_OK) kc_unary_check(&unary, run, "the output");
  kc_run_free(run);
  kc_unary_free(&unary);
}

static void abi_launch_larger(void) {
  launch_with(sizeof(kd_launch) + 128, true, "a larger struct_size");
}

static void abi_launch_smaller(void) {
  /* behind what the first version had lies a page that can't be read */
  launch_with(LAUNCH_010, false, "the first version's struct_size");
}

/* ---- unknown flags and enums ---------------------------------------------------------------- */

static void abi_stream_flag(void) {
  kd_stream *stream = NULL;
  kd_status status = kp.s.create(kc_device(), 0, 0x40000000u, &stream);
  kc_check(status == KD_UNIMPLEMENTED,
           "stream.create with an unknown flag returned %s",
           kd_status_name(status));
  kc_check(stream == NULL || status == KD_OK, "out_stream was written");
  if (status == KD_OK) kp.s.destroy(stream);
}

static void abi_capture_flag(void) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_status status = kp.c.begin(stream, 0x40000000u);
  kc_check(status == KD_UNIMPLEMENTED,
           "a recording with a flag that nobody defined: begin returned %s",
           kd_status_name(status));
  if (status == KD_OK) {
    kd_capture *capture = NULL;
    if (kp.c.end(stream, &capture) == KD_OK) kp.c.destroy(capture);
  }
}

static void abi_event_flag(void) {
  kd_event *event = NULL;
  kd_status status = kp.e.create(kc_device(), 0x40000000u, &event);
  kc_check(status == KD_UNIMPLEMENTED,
           "event.create with an unknown flag returned %s",
           kd_status_name(status));
  if (status == KD_OK) kp.e.destroy(event);
}

/* Asks the definitions of an op that leave it to `supports` which types they take; those
 * that state their types are never asked about others. How many were asked. */
static uint32_t ask_unknown(const char *name, kd_dtype dtype) {
  const kc_op op = {.name = name, .in_count = 1, .out_count = 1};
  const int64_t dim = 16;
  const keel_type *plain = NULL;
  uint32_t asked = 0;
  if (keel_type_of(KD_F32, 1, &dim, &plain) != KD_OK) kc_stop("no type");
  keel_type *type = kc_take(sizeof *type + sizeof(int64_t));
  *type = *plain;
  type->dims[0] = dim;
  type->dtype = dtype;
  const keel_type *const types[1] = {type};
  kc_node *node = kc_node_typed(&op, types, types);
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!def->supports || !kc_def_fits(def, node)) continue;
    asked++;
    kc_check(kc_supports(def, node) != KD_OK,
             "%s.supports takes element type %u", def->op, dtype);
  }
  kc_node_free(node);
  free(type);
  return asked;
}

static void abi_unknown_dtype(void) {
  static const uint32_t odd[] = {KD_DTYPE_COUNT, 63, 77, 0xffffffffu};
  uint32_t with = 0;
  for (size_t i = 0; i < KC_COUNT_OF(kc_unaries); i++)
    for (size_t k = 0; k < KC_COUNT_OF(odd); k++)
      with += ask_unknown(kc_unaries[i], odd[k]);
  if (kp.x.import_memory) {
    kd_buffer *buffer = NULL;
    void *address = NULL;
    const kd_external odd_kind = {.struct_size = sizeof odd_kind,
                                  .kind = 999,
                                  .handle = 1,
                                  .size = 64,
                                  .access = KD_READ};
    kd_status status =
        KC_CALL(kd_status,
                kp.x.import_memory(kc_device(), &odd_kind, &buffer, &address),
                "external.import_memory(kind 999)");
    kc_check(status == KD_UNIMPLEMENTED,
             "import_memory of an unknown kind returned %s",
             kd_status_name(status));
    with++;
  }
  if (!with)
    kc_unclaimed("no slot of the plugin takes an enum that may be new");
}

/* The tables beside kd_plugin, in full size, and where it points to the plugin's own. */
static const struct {
  const char *type;
  const void *whole;
  size_t pointer; /* in kd_plugin */
} tables[] = {
#define TABLE(type, whole, pointer) \
  {#type, &kp.whole, offsetof(kd_plugin, pointer)},
    KC_TABLES(TABLE)
#undef TABLE
};

/* A table as the plugin has it, or NULL. */
static const void *given_at(size_t index) {
  const void *given = NULL;
  memcpy(&given, (const char *)&kp.p + tables[index].pointer, sizeof given);
  return given;
}

static void abi_groups(void) {
  for (size_t i = 0; i < KC_COUNT_OF(tables); i++) {
    const keel_slot *missing =
        given_at(i) ? keel_slot_missing(tables[i].type, tables[i].whole) : NULL;
    kc_check(!missing, "the needed slot %s is NULL",
             missing ? missing->name : "");
  }
  kc_check(!kp.p.streams == !kp.p.events,
           "streams and events must be both set or both NULL");
  if (kp.p.capture) kc_check(kp.p.streams != NULL, "capture without streams");
  kc_check(!kp.r.serialize == !kp.r.validate && !kp.r.validate == !kp.r.load,
           "serialize, validate and load must be all set or all NULL");
  kc_check(!kp.g.make_id == !kp.g.join && !kp.g.join == !kp.g.status &&
               !kp.g.status == !kp.g.abort,
           "make_id, join, status and abort must be all set or all NULL");
  kc_check(!kp.m.map == !kp.m.unmap, "map without unmap");
  if (kp.p.external)
    kc_check(kp.x.import_memory || kp.x.export_memory,
             "both slots of the external table are NULL");
  for (uint32_t i = 0; i < kp.kernel_count; i++)
    kc_check(!kp.kernels[i].create || kp.kernels[i].destroy,
             "%s has create and no destroy", kp.kernels[i].op);
}

static void abi_table_sizes(void) {
  for (size_t i = 0; i < KC_COUNT_OF(tables); i++) {
    const void *given = given_at(i);
    uint32_t begin[2] = {0, 0};
    if (!given) continue;
    memcpy(begin, given, sizeof begin);
    kc_check(begin[0] >= keel_slots_least(tables[i].type) && begin[0] < 65536,
             "%s.struct_size is %u", tables[i].type, begin[0]);
    kc_check(begin[1] == 0, "%s.reserved is %u", tables[i].type, begin[1]);
  }
}

/* Hints are anybody's. */
static void check_flags(const char *what, uint32_t flags, uint32_t known) {
  kc_check(
      (flags & ~known & ~KD_HINTS) == 0 || kp.p.abi_version > KD_ABI_VERSION,
      "%s has unknown flags 0x%x", what, flags);
}

static void abi_definition_flags(void) {
  const uint32_t known =
      KD_KERNEL_ANY_SHAPE | KD_KERNEL_DYNAMIC_OUTPUT | KD_KERNEL_STRIDED |
      KD_KERNEL_ANY_OFFSET | KD_KERNEL_NO_CAPTURE | KD_KERNEL_OWN_LAYOUT |
      KD_KERNEL_LAYOUT_AGNOSTIC | KD_KERNEL_RELAXED | KD_KERNEL_TF32 |
      KD_KERNEL_ACC_F16 | KD_KERNEL_FAST_CONV | KD_KERNEL_FLUSH |
      KD_KERNEL_NONDETERMINISTIC;
  for (uint32_t i = 0; i < kp.kernel_count; i++)
    check_flags(kp.kernels[i].op, kp.kernels[i].flags, known);
  const kd_device_info *info = kc_info();
  check_flags("kd_device_info", info->flags,
              KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE);
  for (uint32_t i = 0; i < info->space_count; i++)
    check_flags("kd_space", kc_space(i).flags,
                KD_SPACE_DEVICE | KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT |
                    KD_SPACE_PINNED);
}

static void abi_extension(void) {
  if (!kp.p.extension) kc_unclaimed("extension is NULL");
  kc_check(KC_CALL(const void *, kp.p.extension(kp.instance, "no.such.thing/1"),
                   "extension(unknown)") == NULL,
           "extension gives a table for a name that nobody defined");
  kc_check(KC_CALL(const void *, kp.p.extension(kp.instance, ""),
                   "extension(empty)") == NULL,
           "extension gives a table for an empty name");
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "abi.host-smaller", abi_host_smaller, KC_CLOSED,
            "base.h", "A reader treats a field beyond `struct_size` as zero",
            "kd_host.struct_size kd_host.extension",
            "A plugin that reads a slot of a newer host without asking whether"
            " it is there crashes in every older one (iree-org/iree#19223). Use"
            " KD_HAS."),
    KC_RULE(MUST, CORE, "abi.host-larger", abi_host_larger, KC_CLOSED, "base.h",
            "and ignores the tail of a larger struct", "kd_host.struct_size",
            "A plugin that demands its own sizeof refuses every newer host"
            " (aws-neuron-sdk#1095)."),
    KC_RULE(MUST, CORE, "abi.host-newer", abi_host_newer, KC_CLOSED, "base.h",
            "Neither side may ever require equal versions",
            "kd_host.abi_version KD_ABI_MINOR",
            "The host's minor version moves with each release"
            " (jax-ml/jax#22416)."),
    KC_RULE(
        MUST, CORE, "abi.reserved-ignored", abi_host_reserved, KC_CLOSED,
        "base.h", "`reserved` fields are zero, and readers ignore them",
        "kd_host.reserved",
        "A later version gives a reserved field a meaning that an old plugin"
        " must not trip over."),
    KC_RULE(MUST, CORE, "abi.node-table-larger", abi_node_table_larger,
            KC_CLOSED, "host.h", "sizeof(kd_node_table) as the host knew it",
            "kd_node_table.struct_size kd_node_table.reserved kd_host.node",
            "The same as for the host's table, one level down."),
    KC_RULE(MUST, CORE, "abi.info-bounded", abi_info_bounded, KC_CASES,
            "device.h",
            "The host zeroes the struct and sets struct_size; the plugin"
            " fills the fields that fit",
            "kd_device_info.struct_size kd_plugin.device_info",
            "memset(out, 0, sizeof *out) of a newer plugin writes past an older"
            " host's struct: it corrupts the host's stack."),
    KC_RULE(MUST, CORE, "abi.info-larger", abi_info_larger, 0, "device.h",
            "sizeof(kd_device_info) as the host knew it",
            "kd_device_info.struct_size",
            "A newer host's struct is larger; refusing it breaks every"
            " upgrade."),
    KC_RULE(MUST, CORE, "abi.property-bounded", kc_property_bounded, KC_CASES,
            "property.h",
            "The host zeroes the struct and sets struct_size; the plugin"
            " fills the fields that fit",
            "kd_property.struct_size kd_plugin.property",
            "As for kd_device_info."),
    KC_RULE(MUST, CORE, "abi.stats-bounded", abi_stats_bounded, 0, "memory.h",
            "Memory usage of a space; the plugin fills the fields that fit",
            "kd_memory_stats.struct_size kd_memory_table.stats",
            "As for kd_device_info."),
    KC_RULE(MUST, CORE, "abi.cost-bounded", abi_cost_bounded, 0, "kernel.h",
            "sizeof(kd_cost) as the host knew it",
            "kd_cost.struct_size kd_kernel_def.cost", "As for kd_device_info."),
    KC_RULE(MUST, CORE, "abi.launch-larger", abi_launch_larger, 0, "kernel.h",
            "sizeof(kd_launch) as the host knew it",
            "kd_launch.struct_size kd_kernel_def.enqueue",
            "Every launch of a newer host is larger."),
    KC_RULE(MUST, CORE, "abi.launch-smaller", abi_launch_smaller, 0, "base.h",
            "so an absent field never changes the meaning of the others",
            "kd_launch.struct_size kd_launch.correlation",
            "A field behind struct_size is not the plugin's to read: the page"
            " may not even be there."),
    KC_RULE(MUST, ASYNC, "abi.stream-flag", abi_stream_flag, 0, "stream.h",
            "none yet; an unknown bit is refused",
            "kd_stream_table.create KD_UNIMPLEMENTED",
            "A bit that is ignored today means something tomorrow: the stream"
            " would not do what was asked, silently."),
    KC_RULE(MUST, ASYNC, "abi.event-flag", abi_event_flag, 0, "stream.h",
            "flags: none yet; an unknown bit is refused",
            "kd_event_table.create KD_UNIMPLEMENTED", "As for streams."),
    KC_RULE(MUST, REPLAY, "abi.capture-flag", abi_capture_flag, 0, "capture.h",
            "none yet; an unknown bit is refused",
            "kd_capture_table.begin KD_UNIMPLEMENTED", "As for streams."),
    KC_RULE(MUST, CORE, "abi.unknown-enum", abi_unknown_dtype, 0, "base.h",
            "A reader treats a number that it does not know as an"
            " unsupported type",
            "KD_DTYPE_COUNT KD_STRING kd_kernel_def.supports"
            " kd_external_table.import_memory kd_external.kind"
            " KD_NONE KD_F8E4M3FN KD_F8E4M3FNUZ KD_F8E5M2 KD_F8E5M2FNUZ KD_U4"
            " KD_I4 KD_F4E2M1 KD_F8E8M0 KD_U2 KD_I2 KD_C64 KD_C128",
            "A table indexed by element type without a bound reads past its end"
            " as soon as ONNX adds a type."),
    KC_RULE(MUST, CORE, "abi.groups", abi_groups, 0, "plugin.h",
            "level async: both or neither",
            "kd_plugin.streams kd_plugin.events kd_plugin.capture"
            " kd_plugin.collectives kd_plugin.external kd_plugin.layouts"
            " kd_plugin.regions kd_plugin.profile kd_plugin.peer"
            " kd_memory_table.unmap"
            " kd_kernel_def.destroy",
            "Half a table is worth nothing to the host: it refuses the"
            " plugin."),
    KC_RULE(MUST, CORE, "abi.table-sizes", abi_table_sizes, 0, "base.h",
            "the size its writer knew",
            "kd_memory_table.struct_size kd_memory_table.reserved"
            " kd_stream_table.struct_size kd_stream_table.reserved"
            " kd_event_table.struct_size kd_event_table.reserved"
            " kd_capture_table.struct_size kd_capture_table.reserved"
            " kd_region_table.struct_size kd_region_table.reserved"
            " kd_profile_table.struct_size kd_profile_table.reserved"
            " kd_external_table.struct_size kd_external_table.reserved"
            " kd_layout_table.struct_size kd_layout_table.reserved"
            " kd_peer_table.struct_size kd_peer_table.reserved"
            " kd_collective_table.struct_size kd_collective_table.reserved",
            "A forgotten struct_size is 0: every slot of the table is then"
            " absent."),
    KC_RULE(
        MUST, CORE, "abi.flags-known", abi_definition_flags, 0, "base.h",
        "A feature that a reader must understand is a bit in a `flags` field",
        "kd_kernel_def.flags kd_device_info.flags kd_space.flags"
        " KD_KERNEL_BLOCKING KD_KERNEL_ADJOINS KD_DEVICE_SOFTWARE"
        " KD_DEVICE_INTEGRATED KD_DEVICE_WIDENS",
        "A host refuses bits that it does not know; a bit set by accident"
        " makes the kernel unusable one day."),
    KC_RULE(MUST, CORE, "abi.extension-unknown", abi_extension, 0, "plugin.h",
            "A table by name, or NULL where the plugin has none of that name",
            "kd_plugin.extension",
            "Returning some table for any name makes the asker call slots that"
            " are not there."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(host_reads_past, "abi.host-smaller", KC_AROUND, "a field behind the host's struct_size is read"),
    DEFECT_AS(host_size_equal, "abi.host-larger", KC_AROUND, "the host's struct_size must be its own"),
    DEFECT_AS(version_equal, "abi.host-newer", KC_AROUND, "the host's version must be its own"),
    DEFECT(reserved_used, "abi.reserved-ignored", "a reserved field is looked at"),
    DEFECT(node_size_equal, "abi.node-table-larger", "the node table's size must be its own"),
    DEFECT_AS(info_memset, "abi.info-bounded", KC_AROUND, "the whole of its newer kd_device_info is cleared"),
    DEFECT(info_size_equal, "abi.info-larger", "a larger kd_device_info is refused"),
    DEFECT(property_memset, "abi.property-bounded", "the whole of its newer kd_property is cleared"),
    DEFECT_AS(stats_overrun, "abi.stats-bounded", KC_AROUND, "kd_memory_stats is filled past struct_size"),
    DEFECT(cost_overrun, "abi.cost-bounded", "kd_cost is filled past struct_size"),
    DEFECT(launch_size_equal, "abi.launch-larger", "kd_launch.struct_size must be its own"),
    DEFECT(launch_reads_past, "abi.launch-smaller", "a field behind kd_launch is read"),
    DEFECT_AS(stream_flag, "abi.stream-flag", KC_AROUND, "unknown flags of a stream are ignored"),
    DEFECT_AS(event_flag, "abi.event-flag", KC_AROUND, "unknown flags of an event are ignored"),
    DEFECT(capture_flag, "abi.capture-flag", "a flag of a recording that nobody defined is taken"),
    DEFECT(dtype_unchecked, "abi.unknown-enum", "any element type is taken"),
    DEFECT(import_any_kind, "abi.unknown-enum", "any kind of external memory is taken"),
    {.name = "half_table", .rule = "abi.groups", .text = "map without unmap", .how = KC_AROUND, .needs = "mem.map-range"},
    {.name = "table_size_zero", .rule = "abi.table-sizes", .text = "the profile table's struct_size is forgotten", .how = KC_AROUND, .needs = "prof.records"},
    DEFECT_AS(half_joined, "abi.groups", 0, "groups are joined, and cannot be given up"),
    DEFECT_AS(kernel_flag, "abi.flags-known", KC_AROUND, "a kernel has a flag that nobody defined"),
    DEFECT_AS(extension_any, "abi.extension-unknown", KC_AROUND, "any extension's name gives a table"),
};
/* clang-format on */

KC_AREA(abi, "Forward and backward compatibility");
