/* prof.c - profile records and the device's clock. */
#include <math.h>

#include "rules/rules.h"

static kd_profile_record found[4096];

/* Profiles some work; how many records came. */
static uint32_t profile(uint64_t work, uint64_t *out_host) {
  kd_stream *stream = kc_stream_or_none();
  kc_unary unary;
  kc_unary_need(5000, &unary);
  kc_run *run = kc_unary_run(&unary);
  if (stream) {
    kc_busy(stream, KC_MS);
    kc_drain(stream);
  }
  kc_records_clear();
  kc_ok(kp.f.start(kc_device()), "profile.start");
  uint64_t begin = kc_now();
  if (stream) kc_busy(stream, work);
  run->launch.correlation = 4711;
  kc_ok(kc_run_enqueue(run, stream), "enqueue");
  kc_drain(stream);
  *out_host = kc_now() - begin;
  kc_ok(kp.f.stop(kc_device()), "profile.stop");
  kc_run_free(run);
  kc_unary_free(&unary);
  return kc_records(found, 4096);
}

static void read_clock(uint64_t *ticks, uint64_t *host, uint64_t *frequency) {
  kc_ok(kp.f.clock(kc_device(), ticks, host, frequency), "profile.clock");
  KC_NEED(*frequency >= 1000 && *frequency <= UINT64_C(100000000000),
          "the clock's frequency is %llu: it is ticks a second",
          (unsigned long long)*frequency);
}

static void prof_records(void) {
  uint64_t host = 0;
  uint32_t count = profile(10 * KC_MS, &host), kernels = 0, named = 0;
  for (uint32_t i = 0; i < count; i++) {
    const kd_profile_record *record = &found[i];
    kc_check(record->begin <= record->end, "record %u ends before it begins",
             i);
    kc_check(
        record->kind >= KD_PROFILE_KERNEL && record->kind <= KD_PROFILE_REPLAY,
        "record %u is of kind %u", i, record->kind);
    kernels += record->kind == KD_PROFILE_KERNEL;
    named += record->correlation == 4711;
  }
  kc_check(count > 0, "no record was pushed");
  kc_check(kernels > 0, "no record is of the kernel");
  kc_check(named > 0, "no record has the launch's correlation");
  kc_note("%u records", count);
}

/* A clock of 32 bits shows where it should go past them: where that is soon, the rule waits
 * for it. One that is past them has more. */
static void pass_32_bits(void) {
  const uint64_t end = UINT64_C(1) << 32, most = (kc.quick ? 2 : 15) * KC_S;
  uint64_t before = 0, after = 0, now = 0, frequency = 0, host = 0;
  read_clock(&before, &now, &frequency);
  if (before >= end) return;
  double left = (double)(end - before) / (double)frequency * 1e9;
  if (left > (double)most) {
    kc_note("its clock has 2^32 ticks after %.0f s more: not waited for",
            left / 1e9);
    return;
  }
  kc_sleep((uint64_t)left + 20 * KC_MS);
  read_clock(&after, &now, &frequency);
  kc_check(after > before,
           "the device's clock said %llu, and %llu later on: has it 32 bits?",
           (unsigned long long)before, (unsigned long long)after);
  uint32_t count = profile(KC_MS, &host);
  for (uint32_t i = 0; i < count; i++)
    kc_check(found[i].begin >= before && found[i].end >= before,
             "record %u begins at %llu and ends at %llu, after the clock has"
             " said %llu: do records have 32 bits?",
             i, (unsigned long long)found[i].begin,
             (unsigned long long)found[i].end, (unsigned long long)before);
}

static void prof_monotone(void) {
  uint64_t host = 0;
  pass_32_bits();
  uint32_t count = profile(20 * KC_MS, &host);
  for (uint32_t i = 1; i < count; i++)
    for (uint32_t k = i; k-- > 0 && i - k < 16;)
      if (found[k].stream == found[i].stream) {
        kc_check(found[i].begin >= found[k].begin,
                 "record %u of stream %u begins before the one before it", i,
                 found[i].stream);
        break;
      }
  kc_check(count > 1, "%u records were pushed", count);
}

/* From the first record's begin to the last one's end: gaps between them, which
 * a machine with other work has, are counted on both clocks. */
static uint64_t span(uint32_t count) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (found[i].begin < begin) begin = found[i].begin;
    if (found[i].end > end) end = found[i].end;
  }
  return end > begin ? end - begin : 0;
}

/* A wrong frequency is wrong each time; a host that waits long before the work
 * begins or after it ended is not. */
static void prof_duration(void) {
  double seconds = 0, real = 0;
  for (int try = 0; try < 6; try++) {
    uint64_t host = 0, ticks = 0, now = 0, frequency = 0;
    uint32_t count = profile(60 * KC_MS, &host);
    read_clock(&ticks, &now, &frequency);
    seconds = (double)span(count) / (double)frequency;
    real = (double)host / 1e9;
    if (seconds <= real * 1.3 + 0.002 && seconds >= real * 0.3) break;
  }
  kc_check(seconds <= real * 1.3 + 0.002,
           "records span %.2f ms, the host's clock says %.2f ms", seconds * 1e3,
           real * 1e3);
  kc_check(seconds >= real * 0.3,
           "records span %.3f ms of %.2f ms: is the frequency right?",
           seconds * 1e3, real * 1e3);
}

static void prof_started(void) {
  uint64_t host = 0, ticks = 0, now = 0, frequency = 0;
  uint64_t before = 0, after = 0;
  read_clock(&before, &now, &frequency);
  uint32_t count = profile(10 * KC_MS, &host);
  read_clock(&after, &now, &frequency);
  (void)ticks;
  for (uint32_t i = 0; i < count; i++)
    kc_check(found[i].begin >= before && found[i].end <= after,
             "record %u lies outside the time that the device's clock showed"
             " around it",
             i);
  kc_check(count > 0, "no record was pushed");
}

static void prof_clock(void) {
  uint64_t ticks[2], host[2], frequency[2];
  read_clock(&ticks[0], &host[0], &frequency[0]);
  uint64_t own = kc_now();
  kc_check(own - host[0] < 50 * KC_MS || host[0] - own < 50 * KC_MS,
           "the host's time is %llu, CLOCK_MONOTONIC says %llu",
           (unsigned long long)host[0], (unsigned long long)own);
  double device = 0, real = 0;
  for (int try = 0; try < 6;
       try++) { /* of two clocks that are read one by one */
    kc_sleep((kc.quick ? 100 : 400) * KC_MS);
    read_clock(&ticks[1], &host[1], &frequency[1]);
    device = (double)(ticks[1] - ticks[0]) / (double)frequency[1];
    real = (double)(host[1] - host[0]) / 1e9;
    if (fabs(device - real) < 0.001 + real * 0.01) break;
    read_clock(&ticks[0], &host[0], &frequency[0]);
  }
  kc_check(frequency[0] == frequency[1], "the frequency changed");
  kc_check(ticks[1] > ticks[0], "the device's clock stands still");
  kc_check(device > real - 0.001 - real * 0.01 &&
               device < real + 0.001 + real * 0.01,
           "the device's clock went on by %.3f ms, the host's by %.3f ms",
           device * 1e3, real * 1e3);
}

static void prof_off(void) {
  uint64_t host = 0;
  profile(2 * KC_MS, &host);
  kc_records_clear();
  kc_unary unary;
  kc_unary_need(64, &unary);
  for (int i = 0; i < 10; i++)
    kc_check(kc_try_op(&unary.op, &kc_plain), "%s did not run", unary.op.name);
  kc_check(kc_records(found, 4096) == 0, "records are pushed after stop");
  kc_unary_free(&unary);
}

static void prof_bytes(void) {
  uint64_t host = 0;
  uint32_t count = profile(5 * KC_MS, &host), copies = 0;
  for (uint32_t i = 0; i < count; i++)
    if (found[i].kind == KD_PROFILE_COPY_IN) {
      copies++;
      kc_check(found[i].bytes == 0 || found[i].bytes == 1 << 20 ||
                   found[i].bytes == 20000,
               "a copy of 1 MiB is recorded with %llu bytes",
               (unsigned long long)found[i].bytes);
    }
  if (!kc_claims(KC_ASYNC) || !copies) kc_unclaimed("it records no copies");
}

/* Two copies and a launch between: each record has its own number. */
static void prof_tags(void) {
  if (!kc_claims(KC_ASYNC) || !kp.s.tag) kc_unclaimed("stream.tag is NULL");
  kd_device *device = kc_device();
  kd_stream *stream = kc_stream_make(device);
  kc_buffer *buffer = kc_buffer_make(4096);
  char *data = kc_lend(4096);
  bool seen[2] = {false, false};
  memset(data, 1, 4096);
  kc_records_clear();
  kc_ok(kp.f.start(device), "profile.start");
  for (uint64_t i = 0; i < 2; i++) {
    kp.s.tag(stream, 9001 + i);
    kc_ok(kp.m.copy_in(device, stream, data, buffer->handle, buffer->offset,
                       4096),
          "memory.copy_in");
  }
  kp.s.tag(stream, 0);
  kc_drain(stream);
  kc_ok(kp.f.stop(device), "profile.stop");
  uint32_t count = kc_records(found, 4096), copies = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (found[i].kind != KD_PROFILE_COPY_IN) continue;
    copies++;
    for (uint64_t k = 0; k < 2; k++)
      seen[k] |= found[i].correlation == 9001 + k;
  }
  kc_check(!copies || (seen[0] && seen[1]),
           "of %u records of copies, %s has the number that its stream was"
           " tagged with",
           copies, seen[0] || seen[1] ? "not each" : "none");
}

#define RULE(id, check, flags, sentence, names, about) \
  KC_RULE(MUST, PROFILE, id, check, flags, "profile.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE("prof.records", prof_records, 0,
         "Starts pushing records of what the device does",
         "kd_profile_table.start kd_profile_table.stop kd_host.profile_push"
         " kd_profile_record.kind kd_profile_record.correlation"
         " kd_profile_record.begin kd_profile_record.end KD_PROFILE_KERNEL"
         " KD_PROFILE_COPY_OUT KD_PROFILE_COPY KD_PROFILE_FILL"
         " KD_PROFILE_REGION KD_PROFILE_REPLAY kd_launch.correlation "
         "kd_profile_record.name"
         " kd_profile_record.reserved",
         "The host lays records beside its ops by their correlation."),
    RULE("prof.monotone", prof_monotone, 0,
         "Starts pushing records of what the device does",
         "kd_profile_record.begin kd_profile_record.stream"
         " kd_profile_table.clock",
         "Work of one stream begins in its order. A counter of 32 bits begins"
         " anew every few seconds: the plugin counts how often."),
    RULE("prof.duration-true", prof_duration, KC_ALONE,
         "The frequency is in ticks per second",
         "kd_profile_table.clock kd_profile_record.end",
         "Ticks taken for nanoseconds."),
    RULE("prof.within-clock", prof_started, 0,
         "Reads the device's clock and the host's",
         "kd_profile_record.begin kd_profile_table.clock",
         "Work stamped when it was enqueued, or by another clock."),
    RULE("prof.clock-map", prof_clock, KC_ALONE,
         "(CLOCK_MONOTONIC, nanoseconds) as close together as possible",
         "kd_profile_table.clock", "An offset that is taken once drifts away."),
    RULE("prof.stop", prof_off, 0,
         "Stops pushing records, once those of all completed work have"
         " been pushed",
         "kd_profile_table.stop KD_UNAVAILABLE",
         "Records that come after stop are nobody's."),
    KC_RULE(MUST, PROFILE, "prof.tags", prof_tags, 0, "stream.h",
            "their profile records carry `correlation`, as launches carry their"
            " own",
            "kd_stream_table.tag",
            "Copies of a trace can't be told apart without it."),
    RULE("prof.bytes", prof_bytes, 0,
         "Starts pushing records of what the device does",
         "kd_profile_record.bytes KD_PROFILE_COPY_IN",
         "Bandwidths are computed from it."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(prof_nothing, "prof.records", KC_AROUND, "no record of kernels is pushed"),
    DEFECT(prof_shuffled, "prof.monotone", "records' times are out of order"),
    DEFECT(prof_clock_wraps, "prof.monotone", "the clock is a counter of 32 bits"),
    DEFECT(prof_records_wrap, "prof.monotone", "records' times have 32 bits"),
    DEFECT(prof_frequency, "prof.duration-true", "ticks are a thousand times too slow"),
    DEFECT(prof_enqueue, "prof.within-clock", "work is stamped by another clock"),
    DEFECT(prof_drifts, "prof.clock-map", "the clock runs 5 percent fast"),
    DEFECT_AS(prof_goes_on, "prof.stop", KC_AROUND, "records come after stop"),
    DEFECT(tag_late, "prof.tags", "records of copies have no number"),
    DEFECT(prof_words, "prof.bytes", "bytes are counted in words"),
};
/* clang-format on */

KC_AREA(prof, "Profiling");
