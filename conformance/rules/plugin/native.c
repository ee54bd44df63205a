/* native.c - the driver's own handles, and streams in queues that applications have. */
#include "layers/slots.h"
#include "rules/rules.h"

static kd_native_table table;

/* Reads the table, with the plugin open. */
static void need_table(void) {
  uint32_t given = 0;
  kc_need_device();
  if (!kp.p.extension) kc_unclaimed("extension is NULL");
  const void *own =
      KC_CALL(const void *, kp.p.extension(kp.instance, KD_NATIVE),
              "extension(" KD_NATIVE ")");
  if (!own) kc_unclaimed("it has no table " KD_NATIVE);
  memcpy(&given, own, sizeof given);
  memset(&table, 0, sizeof table);
  memcpy(&table, own, given < sizeof table ? given : sizeof table);
}

/* All kinds that there are, and the first of a vendor's own. */
static uint32_t kind_at(uint32_t index) {
  static const uint32_t kinds[] = {
      KD_NATIVE_CL_PLATFORM,        KD_NATIVE_CL_DEVICE,
      KD_NATIVE_CL_CONTEXT,         KD_NATIVE_CL_MEM,
      KD_NATIVE_CL_QUEUE,           KD_NATIVE_VK_INSTANCE,
      KD_NATIVE_VK_PHYSICAL_DEVICE, KD_NATIVE_VK_DEVICE,
      KD_NATIVE_VK_QUEUE_FAMILY,    KD_NATIVE_VK_BUFFER,
      KD_NATIVE_VK_QUEUE,           KD_NATIVE_CU_DEVICE,
      KD_NATIVE_CU_CONTEXT,         KD_NATIVE_CU_POINTER,
      KD_NATIVE_CU_STREAM};
  uint32_t known = KC_COUNT_OF(kinds);
  return index < known        ? kinds[index]
         : index < known + 16 ? KD_NATIVE_OWN + index - known
                              : 0;
}

/* Numbers, which may be 0. */
static bool is_number(uint32_t kind) {
  return kind == KD_NATIVE_VK_QUEUE_FAMILY || kind == KD_NATIVE_CU_DEVICE;
}

enum { OF_DEVICE, OF_BUFFER, OF_STREAM, OBJECTS };
static const char *const objects[OBJECTS] = {"device", "buffer", "stream"};

/* Asks for a handle; KD_UNIMPLEMENTED where there is no such slot or object. */
static kd_status native_ask(int of, const kc_buffer *buffer, kd_stream *stream,
                            uint32_t kind, uint64_t *handle, uint64_t *offset) {
  kd_device *device = kc_device();
  if (of == OF_DEVICE)
    return KC_CALL(kd_status, table.device(device, kind, handle),
                   "native.device(kind 0x%x)", kind);
  if (of == OF_BUFFER)
    return table.buffer ? KC_CALL(kd_status,
                                  table.buffer(device, buffer->handle, kind,
                                               handle, offset),
                                  "native.buffer(kind 0x%x)", kind)
                        : KD_UNIMPLEMENTED;
  return table.stream && stream
             ? KC_CALL(kd_status, table.stream(stream, kind, handle),
                       "native.stream(kind 0x%x)", kind)
             : KD_UNIMPLEMENTED;
}

static void native_table(void) {
  need_table();
  uint32_t begin[2] = {0, 0};
  const void *first = kp.p.extension(kp.instance, KD_NATIVE);
  memcpy(begin, first, sizeof begin);
  kc_check(begin[0] >= keel_slots_least("kd_native_table") && begin[0] < 65536,
           "kd_native_table.struct_size is %u", begin[0]);
  kc_check(begin[1] == 0, "kd_native_table.reserved is %u", begin[1]);
  kc_check(table.device != NULL, "the needed slot device is NULL");
  for (int i = 0; i < 3; i++)
    kc_check(KC_CALL(const void *, kp.p.extension(kp.instance, KD_NATIVE),
                     "extension(" KD_NATIVE ")") == first,
             "extension gives another table than before");
}

static void native_handles(void) {
  need_table();
  KC_NEED(table.device, "the needed slot device is NULL");
  kc_buffer *buffer = kc_buffer_in(kc_device(), 0, 4096);
  kd_stream *stream = kc_stream_or_none();
  uint32_t of_device = 0, kind;
  for (uint32_t i = 0; (kind = kind_at(i)); i++) {
    uint32_t has = 0;
    for (int of = 0; of < OBJECTS; of++) {
      uint64_t handle = 0, again = 1, offset = 0;
      kd_status status = native_ask(of, buffer, stream, kind, &handle, &offset);
      kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
               "native.%s(kind 0x%x) returned %s", objects[of], kind,
               kd_status_name(status));
      if (status != KD_OK) continue;
      has++;
      of_device += of == OF_DEVICE;
      kc_check(handle || is_number(kind),
               "the handle of kind 0x%x of a %s is 0", kind, objects[of]);
      kc_ok(native_ask(of, buffer, stream, kind, &again, &offset),
            "asking again");
      kc_check(handle == again, "the handle of kind 0x%x of a %s changes", kind,
               objects[of]);
    }
    kc_check(has <= 1, "kind 0x%x is of %u sorts of objects", kind, has);
  }
  kc_check(of_device > 0, "a device has no handle of any kind");
  if (stream) kc_stream_free(stream);
  kc_buffer_free(buffer);
}

static void native_kinds(void) {
  static const uint32_t unknown[] = {0, 1, 0xff, 0x1ff, 0x7ffffffe, 0xfffffffe};
  need_table();
  KC_NEED(table.device, "the needed slot device is NULL");
  kc_buffer *buffer = kc_buffer_in(kc_device(), 0, 4096);
  kd_stream *stream = kc_stream_or_none();
  for (size_t i = 0; i < KC_COUNT_OF(unknown); i++) {
    uint32_t kind = unknown[i];
    for (int of = 0; of < OBJECTS; of++) {
      uint64_t handle = 77, offset = 78;
      kd_status status = native_ask(of, buffer, stream, kind, &handle, &offset);
      kc_check(status == KD_UNIMPLEMENTED,
               "native.%s of the unknown kind 0x%x returned %s", objects[of],
               kind, kd_status_name(status));
      kc_check(handle == 77 && offset == 78,
               "native.%s wrote a handle and failed", objects[of]);
    }
    kd_stream *made = NULL;
    if (!table.wrap) continue;
    kd_status status =
        KC_CALL(kd_status, table.wrap(kc_device(), kind, 64, &made),
                "native.wrap(kind 0x%x)", kind);
    kc_check(status == KD_UNIMPLEMENTED,
             "native.wrap of the unknown kind 0x%x returned %s", kind,
             kd_status_name(status));
    kc_check(!made, "native.wrap wrote a stream and failed");
  }
  if (stream) kc_stream_free(stream);
  kc_buffer_free(buffer);
}

/* ---- queues ----------------------------------------------------------------------------- */

/* A stream, whose queue is the application's, and that queue; its kind. */
static uint32_t need_queue(kd_stream **out_stream, uint64_t *out_queue) {
  need_table();
  if (!table.wrap) kc_unclaimed("native.wrap is NULL");
  KC_NEED(table.stream, "native.wrap is there, and native.stream is NULL");
  uint32_t kind;
  *out_stream = kc_stream_make(kc_device());
  for (uint32_t i = 0; (kind = kind_at(i)); i++)
    if (native_ask(OF_STREAM, NULL, *out_stream, kind, out_queue, NULL) ==
        KD_OK)
      return kind;
  kc_stop("native.wrap is there, and a stream has no handle of any kind");
}

static kd_stream *wrapped(uint32_t kind, uint64_t queue) {
  kd_stream *stream = NULL;
  kc_ok(KC_CALL(kd_status, table.wrap(kc_device(), kind, queue, &stream),
                "native.wrap(kind 0x%x)", kind),
        "native.wrap");
  KC_NEED(stream, "native.wrap returned KD_OK and no stream");
  return stream;
}

/* Writes a pattern by one stream and reads it by the other, which may be the same. */
static void round_trip(kd_stream *writer, kd_stream *reader, bool wait,
                       uint64_t seed, const char *what) {
  enum { SIZE = 30000 };
  kc_buffer *x = kc_buffer_in(kc_device(), 0, SIZE);
  char *in = kc_lend(SIZE), *out = kc_lend(SIZE);
  memset(out, 0, SIZE);
  kc_write(x, 0, out, SIZE);
  kc_pattern(in, SIZE, seed);
  kc_busy(writer, 4 * KC_MS);
  kc_copy_in(writer, x, 0, in, SIZE);
  if (wait) kc_drain(writer);
  kc_copy_out(reader, x, 0, out, SIZE);
  kc_drain(reader);
  kc_check(!memcmp(in, out, SIZE), "%s", what);
  kc_drain(writer);
  kc_buffer_free(x);
}

static void native_wrap(void) {
  kd_stream *first = NULL, *none = NULL;
  uint64_t queue = 0, again = 0;
  uint32_t kind = need_queue(&first, &queue);
  kd_status status = KC_CALL(kd_status, table.wrap(kc_device(), kind, 0, &none),
                             "native.wrap(kind 0x%x, 0)", kind);
  kc_check(status == KD_INVALID_ARGUMENT && !none,
           "native.wrap of the queue 0 returned %s", kd_status_name(status));
  for (uint64_t i = 0; i < 4; i++) {
    kd_stream *stream = wrapped(kind, queue);
    kd_event *event = kc_event_make(kc_device());
    kc_ok(native_ask(OF_STREAM, NULL, stream, kind, &again, NULL),
          "native.stream");
    kc_check(again == queue,
             "the stream has another queue than it was made of");
    round_trip(stream, stream, false, i,
               "a copy by a stream of the application's queue is wrong");
    kc_busy(stream, KC_MS);
    kc_record(event, stream);
    kc_wait_on(first, event);
    kc_ok(kp.e.wait(event, 10 * KC_S), "event.wait");
    kc_drain(first);
    kc_event_free(event);
    kc_stream_free(stream);
    round_trip(first, first, false, i + 9,
               "the queue does not work when the stream is destroyed");
  }
  kc_stream_free(first);
}

static void native_order(void) {
  kd_stream *first = NULL;
  uint64_t queue = 0;
  uint32_t kind = need_queue(&first, &queue);
  kd_stream *stream = wrapped(kind, queue);
  for (uint64_t i = 0; i < 6; i++)
    round_trip(i % 2 ? first : stream, i % 2 ? stream : first, false, i,
               "work of a queue was not done in the order in which it was"
               " enqueued");
  kc_stream_free(stream);
  kc_stream_free(first);
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "native.table", native_table, 0, "native.h",
            "the same one from `open` to `close`",
            "kd_plugin.extension KD_NATIVE kd_native_table.struct_size"
            " kd_native_table.reserved",
            "The host copies the table once, when the plugin is open."),
    KC_RULE(MUST, CORE, "native.handles", native_handles, 0, "native.h",
            "never 0 where it is a pointer",
            "kd_native_table.device kd_native_table.buffer"
            " kd_native_table.stream KD_NATIVE_CL_PLATFORM"
            " KD_NATIVE_CL_DEVICE KD_NATIVE_CL_CONTEXT KD_NATIVE_CL_MEM"
            " KD_NATIVE_CL_QUEUE KD_NATIVE_VK_INSTANCE"
            " KD_NATIVE_VK_PHYSICAL_DEVICE KD_NATIVE_VK_DEVICE"
            " KD_NATIVE_VK_QUEUE_FAMILY KD_NATIVE_VK_BUFFER"
            " KD_NATIVE_VK_QUEUE KD_NATIVE_CU_DEVICE KD_NATIVE_CU_CONTEXT"
            " KD_NATIVE_CU_POINTER KD_NATIVE_CU_STREAM KD_NATIVE_OWN",
            "An application gives the handle to the driver, which crashes where"
            " it is none."),
    KC_RULE(MUST, CORE, "native.kinds", native_kinds, 0, "native.h",
            "A plugin that does not know a kind, or has none of it, returns"
            " KD_UNIMPLEMENTED",
            "kd_native_table.device kd_native_table.buffer"
            " kd_native_table.stream kd_native_table.wrap KD_UNIMPLEMENTED",
            "A handle of another type than was asked for is called with the"
            " wrong functions. Kinds of later versions are unknown to you."),
    KC_RULE(
        MUST, ASYNC, "native.wrap", native_wrap, 0, "native.h",
        "the host destroys the stream, which leaves the queue alone",
        "kd_native_table.wrap kd_native_table.stream kd_stream_table.destroy"
        " KD_INVALID_ARGUMENT",
        "A queue that the driver counts loses a reference that nobody took;"
        " one that it does not is destroyed under the application."),
    KC_RULE(MUST, ASYNC, "native.order", native_order, 0, "native.h",
            "Work that is enqueued on the stream is in the queue when the call"
            " that enqueues it returns, after all earlier work of the"
            " application",
            "kd_native_table.wrap kd_native_table.stream",
            "A hidden queue of the stream's own, or work that is held back, is"
            " out of order with the application's."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(native_table_new, "native.table", "each call of extension gives another table of native handles"),
    DEFECT_AS(native_zero, "native.handles", KC_AROUND, "the native handle of a buffer is 0"),
    DEFECT_AS(native_any_kind, "native.kinds", KC_AROUND, "a native handle of any kind is given"),
    DEFECT(wrap_takes_queue, "native.wrap", "the application's queue is gone with the stream"),
    DEFECT(wrap_apart, "native.order", "a stream of an application's queue works in one of its own"),
};
/* clang-format on */

KC_AREA(native, "Native handles");
