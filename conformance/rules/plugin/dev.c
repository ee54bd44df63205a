/* dev.c - how many devices, their facts, opening and closing them. */
#include "rules/plugin/property.h"
#include "rules/rules.h"

static void count_body(void *context, uint32_t index) {
  (void)index;
  for (int i = 0; i < 100; i++)
    kc_check(KC_CALL(uint32_t, kp.p.device_count(kp.instance),
                     "device_count") == *(uint32_t *)context,
             "device_count changed");
}

static void dev_count_stable(void) {
  uint32_t count = kc_device_count();
  count_body(&count, 0);
  kc_device();
  count_body(&count, 0);
}

static void dev_info_complete(void) {
  uint32_t count = kc_device_count();
  for (uint32_t i = 0; i < count && i < KC_MAX_DEVICES; i++) {
    kd_device_info info = {.struct_size = sizeof info};
    kc_ok(KC_CALL(kd_status, kp.p.device_info(kp.instance, i, &info),
                  "device_info(%u)", i),
          "device_info");
    kc_check(info.name && *info.name, "device %u has no name", i);
    kc_check(info.kind && *info.kind, "device %u has no kind", i);
    kc_check(!info.space_count || kp.p.space,
             "device %u has %u memory spaces, and kd_plugin.space is NULL", i,
             info.space_count);
    kd_space first = {.flags = KD_SPACE_DEVICE};
    for (uint32_t s = 0; s < info.space_count; s++) {
      kd_space of = {.struct_size = sizeof of}, *space = &of;
      kc_ok(KC_CALL(kd_status, kp.p.space(kp.instance, i, s, &of),
                    "space(%u, %u)", i, s),
            "space");
      if (s == 0) first = of;
      kc_check(space->flags != 0, "space %u of device %u is of no kind", s, i);
      kc_check(!(space->alignment & (space->alignment - 1)) &&
                   space->alignment <= 1u << 21,
               "space %u of device %u has alignment %u", s, i,
               space->alignment);
      kc_check(!space->max_buffer || !space->size ||
                   space->max_buffer <= space->size,
               "space %u of device %u: max_buffer is larger than its size", s,
               i);
      kc_check(space->size == 0 || space->size >= 4096,
               "space %u of device %u has %llu bytes", s, i,
               (unsigned long long)space->size);
    }
    kc_check(info.space_count == 0 || (first.flags & KD_SPACE_DEVICE),
             "the first space of device %u is not the one for kernels", i);
    kc_check(!(info.flags & KD_DEVICE_HOST_ADDRESSABLE) ||
                 info.space_count == 0 || (first.flags & KD_SPACE_HOST_VISIBLE),
             "device %u is host addressable and its first space is not host"
             " visible",
             i);
  }
}

static void dev_info_stable(void) {
  char texts[3][3][128];
  kd_device_info infos[3];
  kc_ok(kc_open(), "open");
  for (int i = 0; i < 3; i++) {
    memset(&infos[i], 0, sizeof infos[i]);
    infos[i].struct_size = sizeof infos[i];
    kc_ok(
        KC_CALL(kd_status, kp.p.device_info(kp.instance, kc.device, &infos[i]),
                "device_info(%u)", kc.device),
        "device_info");
    char burn[4096]; /* over where a string on the stack would be */
    memset(burn, 0x11, sizeof burn);
    __asm__ volatile("" : : "r"(burn) : "memory");
    const char *own[3] = {infos[i].name, infos[i].kind, infos[i].driver};
    for (int k = 0; k < 3; k++)
      snprintf(texts[i][k], sizeof texts[i][k], "%s", own[k] ? own[k] : "");
    infos[i].name = infos[i].kind = infos[i].driver = NULL;
    if (i == 0) kc_device();
  }
  for (int i = 1; i < 3; i++) {
    kc_check(memcmp(&infos[0], &infos[i], sizeof infos[0]) == 0,
             "device_info gives other facts the %d. time", i + 1);
    for (int k = 0; k < 3; k++)
      kc_check(!strcmp(texts[0][k], texts[i][k]),
               "device_info gives \"%.60s\", and \"%.60s\" before", texts[i][k],
               texts[0][k]);
  }
  for (int k = 0; k < 2; k++)
    for (const char *at = texts[0][k]; *at; at++)
      if ((unsigned char)*at < ' ' || *at == 0x11) {
        kc_check(false, "a string of device_info holds control characters");
        break;
      }
}

static void dev_uuid(void) {
  uint32_t count = kc_device_count();
  static const uint8_t none[16];
  kd_device_info infos[KC_MAX_DEVICES];
  uint32_t with = 0;
  for (uint32_t i = 0; i < count && i < KC_MAX_DEVICES; i++) {
    infos[i] = *kc_info_at(i);
    if (!memcmp(infos[i].uuid, none, 16)) continue;
    with++;
    for (uint32_t k = 0; k < i; k++)
      kc_check(memcmp(infos[i].uuid, infos[k].uuid, 16) != 0,
               "devices %u and %u have one uuid", k, i);
  }
  char out[4000];
  bool late = false;
  int status = kc_helper("open", "", KC_S * 60, out, sizeof out, &late);
  kc_check(!late, "opening in another process took over a minute: %.300s", out);
  kc_check(late || status == 0, "opening in another process failed: %.300s",
           out);
  /* a driver may have written to it, too */
  for (uint32_t i = 0; !status && i < count && i < KC_MAX_DEVICES; i++) {
    char hex[33];
    for (int k = 0; k < 16; k++)
      snprintf(hex + 2 * k, 3, "%02x", infos[i].uuid[k]);
    kc_check(strstr(out, hex) != NULL,
             "device %u has uuid %s here, and in another process: %.200s", i,
             hex, out);
  }
  kc_note("%u of %u devices have a uuid", with, count);
}

static void dev_index(void) {
  uint32_t count = kc_device_count();
  const uint32_t wrong[] = {count, count + 1, UINT32_MAX};
  for (size_t i = 0; i < KC_COUNT_OF(wrong); i++) {
    kd_device_info info = {.struct_size = sizeof info};
    kd_status status =
        KC_CALL(kd_status, kp.p.device_info(kp.instance, wrong[i], &info),
                "device_info(%u of %u)", wrong[i], count);
    kc_check(status == KD_OUT_OF_RANGE,
             "device_info(%u), of %u devices, returned %s", wrong[i], count,
             kd_status_name(status));
  }
}

static void dev_cycle(void) {
  kc_ok(kc_open(), "open");
  int cycles = kc.quick ? 12 : 60;
  uint64_t times[60];
  for (int i = 0; i < cycles; i++) {
    uint64_t begin = kc_now();
    kc_device();
    kc_close_devices();
    times[i] = kc_now() - begin;
  }
  uint64_t last = times[cycles - 1], middle = times[cycles / 2];
  kc_check(last < 20 * middle + 100 * KC_MS,
           "opening takes %.1f ms in the end, %.1f ms in the middle",
           (double)last / 1e6, (double)middle / 1e6);
}

static void dev_works_after_reopen(void) {
  for (int i = 0; i < 3 && (i || kc_case("copies")); i++) {
    kc_buffer *buffer = kc_buffer_make(256);
    kc_check(kc_round_trip(buffer, (uint64_t)i) == buffer->size,
             "copies are wrong after %d close and open of the device", i);
    kc_buffer_free(buffer);
    kc_close_devices();
  }
  kc_ops_again(false);
}

/* INLINE: what a kernel made can be read at once, by address if there is one. */
static void dev_inline(void) {
  const kd_device_info *info = kc_info();
  if (!(info->flags & KD_DEVICE_INLINE)) kc_unclaimed("it is not INLINE");
  kc_unary unary;
  kc_unary_need(100000, &unary);
  for (int i = 0; i < 20; i++) {
    kc_run *run = kc_unary_run(&unary);
    kd_stream *stream = kc_stream_or_none();
    kc_ok(kc_run_enqueue(run, stream), "enqueue");
    kc_unary_check(&unary, run, "the output, read without a wait,");
    if (stream) kc_finish(stream);
    kc_run_free(run);
    if (stream) kc_stream_free(stream);
  }
  kc_unary_free(&unary);
}

static void dev_addressable(void) {
  const kd_device_info *info = kc_info();
  if (!(info->flags & KD_DEVICE_HOST_ADDRESSABLE))
    kc_unclaimed("it is not HOST_ADDRESSABLE");
  char bytes[512], back[512];
  kc_buffer *buffer = kc_buffer_make(sizeof bytes);
  KC_NEED(buffer->address != NULL, "a host addressable device gave no address");
  kc_pattern(bytes, sizeof bytes, 4);
  kc_write(buffer, 0, bytes, sizeof bytes);
  kc_check(!memcmp(buffer->address, bytes, sizeof bytes),
           "the host reads other bytes at the address than were copied in");
  kc_pattern(buffer->address, sizeof bytes, 5);
  kc_pattern(bytes, sizeof bytes, 5);
  kc_read(buffer, 0, back, sizeof back);
  kc_check(!memcmp(back, bytes, sizeof bytes),
           "copy_out gives other bytes than the host wrote at the address");
  /* a host pointer with the alignment is as good as its own memory */
  kc_unary unary;
  if (kc_unary_make(64, &unary)) {
    kc_run *run = kc_unary_run(&unary);
    size_t align = kc_space(0).alignment ? kc_space(0).alignment : 64;
    size_t capacity = (64 * sizeof(float) + align - 1) / align * align;
    float *x = aligned_alloc(align, capacity),
          *y = aligned_alloc(align, capacity);
    KC_NEED(x && y, "the suite has no memory");
    value_store(unary.in, x);
    run->in[0].buffer = run->out[0].buffer = NULL;
    run->in[0].data = x;
    run->out[0].data = y;
    run->in[0].offset = run->out[0].offset = 0;
    run->in[0].flags = run->out[0].flags = KD_TENSOR_HOST;
    kd_status status = kc_run_enqueue(run, NULL);
    kc_check(status == KD_OK, "a launch on host memory returned %s: %s",
             kd_status_name(status), kc_message());
    kc_unary_compare(&unary, unary.in, y, "the output in host memory");
    kc_run_free(run);
    free(x);
    free(y);
    kc_unary_free(&unary);
  }
}

static void dev_limits(void) {
  const kd_device_info *info = kc_info();
  for (uint32_t s = 0; s < info->space_count; s++) {
    if (!kc_case("space=%u", s)) continue;
    uint64_t most = kc_space(s).max_buffer;
    if (!most || most > kc.max_memory || most < 4096) {
      kc_check(true, " ");
      kc_note("max_buffer is %llu: not tried", (unsigned long long)most);
      continue;
    }
    kd_buffer *buffer = NULL;
    void *address = NULL;
    kd_status status = kc_allocate(kc_device(), s, most, &buffer, &address);
    kc_check(status == KD_OK || status == KD_OUT_OF_MEMORY,
             "allocating max_buffer (%llu bytes) returned %s",
             (unsigned long long)most, kd_status_name(status));
    if (status == KD_OK) {
      char byte = 7, back = 0;
      kc_ok(kp.m.copy_in(kc_device(), NULL, &byte, buffer, most - 1, 1),
            "copy_in");
      kc_ok(kp.m.copy_out(kc_device(), NULL, buffer, most - 1, &back, 1),
            "copy_out");
      kc_check(back == 7,
               "the last byte of max_buffer does not keep its value");
      kp.m.release(kc_device(), buffer);
    }
  }
}

static void dev_memory_info(void) {
  if (!kp.m.stats) kc_unclaimed("memory.stats is NULL");
  kd_memory_stats before = {.struct_size = sizeof before};
  kd_memory_stats during = {.struct_size = sizeof during};
  kd_memory_stats after = {.struct_size = sizeof after};
  const uint64_t size = 4 << 20;
  kc_ok(kp.m.stats(kc_device(), 0, &before), "stats");
  kc_buffer *buffer = kc_buffer_make(size);
  kc_ok(kp.m.stats(kc_device(), 0, &during), "stats");
  kc_buffer_free(buffer);
  kc_ok(kp.m.stats(kc_device(), 0, &after), "stats");
  kc_check(!before.total || before.available <= before.total,
           "available (%llu) is more than total (%llu)",
           (unsigned long long)before.available,
           (unsigned long long)before.total);
  kc_check(during.used >= before.used + size,
           "used went from %llu to %llu by an allocation of %llu",
           (unsigned long long)before.used, (unsigned long long)during.used,
           (unsigned long long)size);
  kc_check(during.buffers == before.buffers + 1,
           "buffers went from %llu to %llu by one allocation",
           (unsigned long long)before.buffers,
           (unsigned long long)during.buffers);
  kc_check(after.used == before.used && after.buffers == before.buffers,
           "used and buffers do not return to what they were");
}

static void dev_status(void) {
  if (!kp.p.device_status) kc_unclaimed("device_status is NULL");
  kd_device *device = kc_device();
  for (int i = 0; i < 10; i++)
    kc_check(KC_CALL(kd_status, kp.p.device_status(device), "device_status") ==
                 KD_OK,
             "device_status of a healthy device is not KD_OK");
}

static void dev_two(void) {
  kc_need_two_devices();
  kd_device *a = kc_device_at(0), *b = kc_device_at(1);
  kc_check(a != b, "two devices have one handle");
  char of_a[4096], of_b[4096], back[4096];
  kc_buffer *x = kc_buffer_in(a, 0, sizeof of_a);
  kc_buffer *y = kc_buffer_in(b, 0, sizeof of_b);
  kc_pattern(of_a, sizeof of_a, 1);
  kc_pattern(of_b, sizeof of_b, 2);
  kc_write(x, 0, of_a, sizeof of_a);
  kc_write(y, 0, of_b, sizeof of_b);
  kc_read(x, 0, back, sizeof back);
  kc_check(!memcmp(back, of_a, sizeof back),
           "device 0's buffer changed when device 1's was written");
  kc_read(y, 0, back, sizeof back);
  kc_check(!memcmp(back, of_b, sizeof back), "device 1's buffer is wrong");
  if (kp.m.stats) {
    kd_memory_stats before = {.struct_size = sizeof before}, after = before;
    kc_ok(kp.m.stats(b, 0, &before), "stats");
    kc_buffer *more = kc_buffer_in(a, 0, 100000);
    kc_ok(kp.m.stats(b, 0, &after), "stats");
    kc_check(before.used == after.used,
             "allocating on device 0 changed what device 1 has in use");
    kc_buffer_free(more);
  }
  kc_devices_at_once();
}

static void dev_hooks(void) {
  if (!kp.p.run_begin) kc_unclaimed("run_begin is NULL");
  kd_device *device = kc_device();
  for (uint64_t i = 1; i < 20; i++) {
    KC_DO(kp.p.run_begin(device, i), "run_begin");
    kc_unary unary;
    if (kc_unary_make(32, &unary)) {
      kc_check(kc_try_op(&unary.op, &kc_plain), "%s did not run",
               unary.op.name);
      kc_unary_free(&unary);
    }
    kc_check(true, " ");
  }
}

static void dev_pci(void) {
  const kd_device_info *info = kc_info();
  kc_check(info->pci >> 48 == 0 && info->numa_node < 4096,
           "pci is 0x%llx, numa_node %u", (unsigned long long)info->pci,
           info->numa_node);
  kc_check(info->peak_flops_f32 == 0 || info->peak_flops_f32 > 1000000,
           "peak_flops_f32 is %llu: it is operations a second",
           (unsigned long long)info->peak_flops_f32);
  kc_check(info->bandwidth == 0 || info->bandwidth > 1000000,
           "bandwidth is %llu: it is bytes a second",
           (unsigned long long)info->bandwidth);
  kc_check(info->compute_units < 1u << 24, "compute_units is %u",
           info->compute_units);
  kc_note("%u compute units, %llu in flight", info->compute_units,
          (unsigned long long)info->max_in_flight);
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "dev.count-stable", dev_count_stable, 0, "plugin.h",
            "Returns how many devices there are. Their number and order stay"
            " the same from `open` to `close`",
            "kd_plugin.device_count",
            "A count that is found anew at each call changes while the host"
            " walks over it."),
    KC_RULE(MUST, CORE, "dev.info-complete", dev_info_complete, 0, "device.h",
            "A plugin states these facts once",
            "kd_device_info.name kd_device_info.kind kd_device_info.space_count"
            " kd_plugin.space kd_space.struct_size kd_space.reserved"
            " kd_device_info.reserved kd_space.flags kd_space.alignment"
            " kd_space.size kd_space.max_buffer KD_MAX_SPACES KD_SPACE_DEVICE"
            " KD_SPACE_COHERENT KD_SPACE_CACHED KD_SPACE_PINNED"
            " kd_device_info.reserved_facts",
            "Placement and allocation go by these facts."),
    KC_RULE(MUST, CORE, "dev.info-stable", dev_info_stable, 0, "device.h",
            "The host copies the strings when device_info returns",
            "kd_plugin.device_info kd_device_info.driver",
            "Pointers into the plugin's stack or a shared buffer change before"
            " the host has copied them."),
    KC_RULE(MUST, CORE, "dev.uuid-unique", dev_uuid, 0, "device.h",
            "The hardware's identity, the same through every plugin that"
            " drives it",
            "kd_device_info.uuid",
            "The host tells doubles, and finds a device again, by it; an"
            " identity made up per process does neither."),
    KC_RULE(MUST, CORE, "dev.index-out-of-range", dev_index, 0, "plugin.h",
            "Describes a device without opening it",
            "kd_plugin.device_info KD_OUT_OF_RANGE",
            "An index that is not checked reads past the plugin's list."),
    KC_RULE(MUST, CORE, "dev.open-close", dev_cycle, 0, "plugin.h",
            "the host does so once before it uses it",
            "kd_plugin.device_open kd_plugin.device_close",
            "A context that each close leaves behind makes the fortieth open"
            " fail."),
    KC_RULE(MUST, CORE, "dev.works-after-reopen", dev_works_after_reopen,
            KC_CASES, "plugin.h",
            "Closes a device whose streams, buffers and kernels have been"
            " destroyed",
            "kd_plugin.device_close kd_plugin.device_open",
            "State of the last opening that is still there is met by the"
            " next: each op gives what it gave before."),
    KC_RULE(MUST, CORE, "dev.inline-true", dev_inline, 0, "device.h",
            "The work of a kernel or copy is done when the call returns",
            "KD_DEVICE_INLINE kd_device_info.flags",
            "The host does not wait for an INLINE device: results that come"
            " later are read too early."),
    KC_RULE(MUST, CORE, "dev.addressable-true", dev_addressable, 0, "device.h",
            "is as good as its own memory",
            "KD_DEVICE_HOST_ADDRESSABLE KD_TENSOR_HOST KD_SPACE_HOST_VISIBLE"
            " kd_tensor.data",
            "The host then neither copies nor maps: it hands its own pointers"
            " over."),
    KC_RULE(MUST, CORE, "dev.limits-true", dev_limits, KC_CASES, "device.h",
            "largest single allocation, bytes; 0: no limit",
            "kd_space.max_buffer kd_memory_table.allocate",
            "A limit kept in 32 bits, or taken from another device, makes large"
            " models fail late."),
    KC_RULE(SHOULD, CORE, "dev.memory-info", dev_memory_info, 0, "memory.h",
            "bytes this process has allocated",
            "kd_memory_stats.total kd_memory_stats.available"
            " kd_memory_stats.used kd_memory_stats.buffers"
            " kd_memory_table.stats kd_memory_stats.reserved",
            "Users decide on batch sizes by these figures."),
    KC_RULE(MUST, CORE, "dev.status-ok", dev_status, 0, "plugin.h",
            "Whether an open device still works", "kd_plugin.device_status",
            "A healthy device that says otherwise is taken out of service."),
    KC_RULE(MUST, CORE, "dev.two-devices", dev_two, 0, "plugin.h",
            "Devices are independent: the work of one has no effect on"
            " another",
            "kd_plugin.device_open kd_memory_table.allocate",
            "A \"current device\" that is set once sends everything to device"
            " 0; a staging buffer that two devices share mixes their copies up"
            " when both copy at once."),
    KC_RULE(MUST, CORE, "dev.run-hooks", dev_hooks, 0, "plugin.h",
            "Announces a run of a program on the device", "kd_plugin.run_begin",
            "The host calls it before each run, of any number."),
    KC_RULE(MUST, CORE, "dev.properties", kc_properties, 0, "property.h",
            "These names have one type and unit in all plugins",
            "kd_plugin.property kd_property.name kd_property.unit"
            " kd_property.type kd_property.flags kd_property.reserved"
            " kd_property.integer kd_property.real kd_property.text"
            " KD_PROPERTY_NONE KD_PROPERTY_INTEGER KD_PROPERTY_REAL"
            " KD_PROPERTY_TEXT KD_OUT_OF_RANGE",
            "People read them side by side, and tools look for a name: a clock"
            " in MHz here and in Hz there is worse than none."),
    KC_RULE(MUST, CORE, "dev.properties-stable", kc_properties_stable, 0,
            "property.h", "Other values stay the same from `open` to `close`",
            "kd_plugin.property KD_PROPERTY_CHANGES",
            "Who walks over the list by index meets each property once, and"
            " keeps what does not change."),
    KC_RULE(MUST, CORE, "dev.facts-in-units", dev_pci, 0, "base.h",
            "sizes are in bytes and times in nanoseconds",
            "kd_device_info.pci kd_device_info.numa_node"
            " kd_device_info.compute_units kd_device_info.peak_flops_f32"
            " kd_device_info.bandwidth kd_device_info.max_in_flight",
            "Gigabytes or teraflops where bytes and operations are meant make"
            " every cost a million times too small."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(count_changes, "dev.count-stable", KC_AROUND, "the count of devices changes between calls"),
    DEFECT_AS(info_nameless, "dev.info-complete", KC_AROUND, "a device has no name"),
    DEFECT_AS(info_alignment, "dev.info-complete", KC_AROUND, "a space's alignment is no power of two"),
    DEFECT_AS(info_stack, "dev.info-stable", KC_AROUND, "the name lies in a buffer that each call changes"),
    DEFECT(uuid_same, "dev.uuid-unique", "all devices have one uuid"),
    DEFECT_AS(uuid_random, "dev.uuid-unique", KC_AROUND, "the uuid is made up per process"),
    DEFECT_AS(index_unchecked, "dev.index-out-of-range", KC_AROUND, "the index of a device is not checked"),
    DEFECT_AS(opens_leak, "dev.open-close", KC_AROUND, "the fiftieth open fails"),
    DEFECT_AS(reopen_dirty, "dev.works-after-reopen", KC_AROUND, "the second opening loses copies"),
    DEFECT(tables_of_device, "dev.works-after-reopen", "an op's tables are those of the first opening of the device"),
    DEFECT(inline_lie, "dev.inline-true", "INLINE is claimed, and work finishes later"),
    DEFECT(addressable_lie, "dev.addressable-true", "addresses are claimed that are shadows"),
    DEFECT(limit_lie, "dev.limits-true", "max_buffer can't be allocated"),
    DEFECT(stats_wrong, "dev.memory-info", "used memory never falls"),
    DEFECT_AS(status_lost, "dev.status-ok", KC_AROUND, "a healthy device says that it is lost"),
    DEFECT(device_zero, "dev.two-devices", "everything goes to device 0"),
    DEFECT_AS(staging_of_all, "dev.two-devices", KC_RACE, "two devices share a staging buffer, each with a lock of its own"),
    DEFECT_AS(launch_of_all, "dev.two-devices", KC_RACE, "two devices share memory for a launch's arguments"),
    DEFECT(run_begin_crash, "dev.run-hooks", "run_begin ends the process after three runs"),
    DEFECT(property_nameless, "dev.properties", "a property has no name"),
    DEFECT(property_twice, "dev.properties", "two properties have one name"),
    DEFECT(property_unit, "dev.properties", "a clock is in MHz"),
    DEFECT(property_garbled, "dev.properties", "a property's text is no UTF-8"),
    DEFECT(property_doubled_fact, "dev.properties", "what kd_device_info has is a property, too"),
    DEFECT(property_endless, "dev.properties", "the list of properties has no end"),
    DEFECT(property_any_device, "dev.properties", "a property's device is not checked"),
    DEFECT(property_drifts, "dev.properties-stable", "a temperature changes, and is not said to"),
    DEFECT_AS(flops_in_tera, "dev.facts-in-units", KC_AROUND, "the peak is in teraflops"),
};
/* clang-format on */

KC_AREA(dev, "Devices and their facts");
