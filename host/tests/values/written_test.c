/* written_test.c - keel_tensor_on_written tells when the work that writes a value has ended, not
 * before, and how: of that value's work, not of others'. On the toys, a product by 7 waits for
 * the gate, and one by 13 fails. */
#include <pthread.h>
#include <stdatomic.h>

#include "one_context.h"
#include "toy/toy.h"

static keel_device *device;
static toy_state *toy;
static const float two[2] = {1, -2};
static const int64_t dims[1] = {2};

static void begin(const char *name, const char *plugin, int workers) {
  context = open_with(CPU_PLUGIN, plugin, workers);
  expect_ok(keel_device_find(context, name, &device));
  toy = toy_of(plugin);
}

static keel_tensor *there(const float *values, uint32_t rank) {
  keel_tensor *here = create_tensor(context, KD_F32, rank, dims, values);
  keel_tensor *moved = tensor_on(here, device);
  keel_tensor_release(here);
  return moved;
}

static keel_tensor *product(keel_tensor *x, keel_tensor *factor) {
  keel_tensor *in[] = {x, factor}, *out = NULL;
  out = call_op_on(device, context, "Mul", in, 2);
  return out;
}

static keel_tensor *by(keel_tensor *x, float factor) {
  keel_tensor *y = there(&factor, 0), *z = product(x, y);
  keel_tensor_release(y);
  return z;
}

typedef struct heard {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int times;
  keel_status status;
  char text[500];
} heard;

#define HEARD \
  { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static void hear(void *to, keel_status status) {
  heard *h = to;
  pthread_mutex_lock(&h->lock);
  h->times++;
  h->status = status;
  snprintf(h->text, sizeof h->text, "%s",
           status == KD_OK ? "" : keel_message());
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
}

/* Waits until it has been told, and returns what. */
static keel_status told(heard *h) {
  pthread_mutex_lock(&h->lock);
  while (!h->times)
    pthread_cond_wait(&h->changed, &h->lock);
  keel_status status = h->status;
  assert_int_equal(h->times, 1);
  pthread_mutex_unlock(&h->lock);
  return status;
}

static int times_told(heard *h) {
  pthread_mutex_lock(&h->lock);
  int times = h->times;
  pthread_mutex_unlock(&h->lock);
  return times;
}

/* ---- tests ------------------------------------------------------------------------------ */

TEST_THAT(what_is_on_the_host_is_there_at_once) {
  heard h = HEARD;
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = create_tensor(context, KD_F32, 1, dims, two);
  expect_ok(keel_tensor_on_written(x, hear, &h));
  assert_int_equal(times_told(&h), 1);
  expect_ok(told(&h));
  RELEASE(x, context);
}

/* The value is known, and nobody holds it any more, while its work still runs. */
static void gated(const char *name, const char *plugin, int workers) {
  heard h = HEARD;
  begin(name, plugin, workers);
  keel_tensor *x = there(two, 1);
  expect_ok(keel_device_synchronize(device));
  atomic_store(&toy->gate, 1);
  keel_tensor *y = by(x, 7);
  expect_ok(keel_tensor_query(y));
  expect_ok(keel_tensor_on_written(y, hear, &h));
  keel_tensor_release(y);
  assert_int_equal(times_told(&h), 0);
  atomic_store(&toy->gate, 0);
  expect_ok(told(&h));
  RELEASE(x, context);
}

TEST_THAT(it_tells_when_the_work_has_ended) {
  gated("queue:0", TOY("queue"), 2);
  gated("shared:0", TOY("shared"), 2);
}

TEST_THAT(it_tells_without_workers) {
  gated("queue:0", TOY("queue"), KEEL_NO_WORKERS);
}

TEST_THAT(it_tells_where_the_plugin_calls_nobody_back) {
  gated("echo:0", TOY("echo"), 2);
  gated("echo:0", TOY("echo"), KEEL_NO_WORKERS);
}

static void failed(const char *name, const char *plugin, const char *why) {
  heard before = HEARD, of_it = HEARD, later = HEARD, behind = HEARD;
  begin(name, plugin, 2);
  keel_tensor *x = there(two, 1), *seven = there(&(const float){7}, 0);
  keel_tensor *thirteen = there(&(const float){13}, 0);
  expect_ok(keel_device_synchronize(device));
  atomic_store(&toy->gate, 1); /* all of it is under way at once */
  keel_tensor *good = product(x, seven), *bad = product(x, thirteen);
  expect_ok(keel_tensor_on_written(bad, hear, &of_it));
  expect_ok(keel_tensor_on_written(good, hear, &before));
  atomic_store(&toy->gate, 0);
  assert_int_equal(told(&of_it), KD_INTERNAL);
  if (!strstr(of_it.text, why)) fail_msg("\"%s\"", of_it.text);
  told(&before); /* of the same wait: the stream does not say which failed */
  /* who asks later is told the same, and new work is new */
  expect_ok(keel_tensor_on_written(bad, hear, &later));
  assert_int_equal(told(&later), KD_INTERNAL);
  assert_non_null(strstr(later.text, why));
  keel_tensor *next = by(x, 3);
  expect_ok(keel_tensor_on_written(next, hear, &behind));
  expect_ok(told(&behind));
  release_all((keel_tensor *[]){x, seven, thirteen, good, bad, next}, 6);
  keel_close(context);
}

TEST_THAT(it_tells_of_a_failure) {
  failed("queue:0", TOY("queue"), "it can't multiply by 13");
  failed("shared:0", TOY("shared"), "it can't multiply by 13");
}

/* A later failure on the same device does not touch a value that is already computed. */
TEST_THAT(others_failures_are_not_its_own) {
  heard h = HEARD;
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = there(two, 1), *good = by(x, 3);
  expect_ok(keel_device_synchronize(device));
  keel_tensor *bad = by(x, 13);
  expect_ok(keel_tensor_on_written(good, hear, &h));
  expect_ok(told(&h));
  release_all((keel_tensor *[]){x, good, bad}, 3);
  keel_close(context);
}

TEST_THAT(a_value_that_is_not_known_yet) {
  heard h = HEARD, of_failed = HEARD;
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = there(two, 1), *promise = NULL, *broken = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  expect_ok(keel_tensor_promise(context, &broken));
  expect_ok(keel_tensor_on_written(promise, hear, &h));
  expect_ok(keel_tensor_on_written(broken, hear, &of_failed));
  assert_int_equal(times_told(&h) + times_told(&of_failed), 0);
  expect_ok(keel_tensor_fulfil(promise, x));
  expect_ok(told(&h));
  expect_ok(keel_tensor_fail(broken, KD_CANCELLED, "nobody wanted it"));
  assert_int_equal(told(&of_failed), KD_CANCELLED);
  assert_string_equal(of_failed.text, "nobody wanted it");
  release_all((keel_tensor *[]){x, promise, broken}, 3);
  keel_close(context);
}

/* Work that is before the event of one who asked first is told by it, too. */
TEST_THAT(those_behind_the_same_work_share_an_event) {
  enum { VALUES = 4 };
  heard h[VALUES] = {HEARD, HEARD, HEARD, HEARD};
  keel_tensor *y[VALUES];
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = there(two, 1), *seven = there(&(const float){7}, 0);
  keel_tensor *three = there(&(const float){3}, 0);
  expect_ok(keel_device_synchronize(device));
  atomic_store(&toy->gate, 1);
  for (int i = 0; i < VALUES - 1; i++)
    y[i] = product(x, i ? three : seven);
  for (int i = VALUES - 1; i-- > 0;)
    expect_ok(keel_tensor_on_written(y[i], hear, &h[i]));
  assert_int_equal(atomic_load(&toy->pending), 1);
  y[VALUES - 1] = product(x, three); /* behind it */
  expect_ok(keel_tensor_on_written(y[VALUES - 1], hear, &h[VALUES - 1]));
  assert_int_equal(atomic_load(&toy->pending), 2);
  for (int i = 0; i < VALUES; i++)
    assert_int_equal(times_told(&h[i]), 0);
  atomic_store(&toy->gate, 0);
  for (int i = 0; i < VALUES; i++)
    expect_ok(told(&h[i]));
  release_all(y, VALUES);
  release_all((keel_tensor *[]){x, seven, three}, 3);
  keel_close(context);
}

/* Each is told of its own work. */
TEST_THAT(who_shares_an_event_is_told_of_its_own_failure) {
  heard good = HEARD, bad = HEARD;
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = there(two, 1), *seven = there(&(const float){7}, 0);
  keel_tensor *thirteen = there(&(const float){13}, 0);
  expect_ok(keel_device_synchronize(device));
  atomic_store(&toy->gate, 1);
  keel_tensor *y[] = {product(x, seven), product(x, thirteen),
                      product(x, seven)};
  expect_ok(keel_tensor_on_written(y[2], hear, &good));
  expect_ok(keel_tensor_on_written(y[1], hear, &bad));
  assert_int_equal(atomic_load(&toy->pending), 1);
  atomic_store(&toy->gate, 0);
  told(&good); /* of the same wait: the stream does not say which failed */
  assert_int_equal(told(&bad), KD_INTERNAL);
  release_all(y, 3);
  release_all((keel_tensor *[]){x, seven, thirteen}, 3);
  keel_close(context);
}

TEST_THAT(closing_waits_until_all_are_told) {
  heard h[50];
  begin("queue:0", TOY("queue"), 2);
  keel_tensor *x = there(two, 1), *three = there(&(const float){3}, 0);
  for (int i = 0; i < 50; i++) {
    h[i] = (heard)HEARD;
    keel_tensor *y = product(x, three);
    expect_ok(keel_tensor_on_written(y, hear, &h[i]));
    keel_tensor_release(y);
  }
  release_all((keel_tensor *[]){x, three}, 2);
  keel_close(context);
  for (int i = 0; i < 50; i++)
    assert_int_equal(times_told(&h[i]), 1);
}

RUN_TESTS(NULL, NULL)
