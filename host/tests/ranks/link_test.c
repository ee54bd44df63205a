/* link_test.c - links, by a module that stands in for MPI: who waits for whom, and what is said
 * where something goes wrong. link_test.sh has the same with MPI. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/link/link.h"

#define WORKERS 2
#include "with_cpu.h"

static keel_link *ranks;

static keel_status open_link(const char *how, uint64_t timeout) {
  const keel_link_params params = {
      .struct_size = sizeof params, .module = LINK_STANDIN, .timeout = timeout};
  setenv("KEEL_STANDIN", how, 1);
  return keel_link_open(context, &params, &ranks);
}

static keel_tensor *member_of(void) {
  keel_tensor *member = NULL;
  expect_ok(keel_link_member(ranks, NULL, &member));
  return member;
}

/* An exchange of x, which stays. */
static keel_tensor *exchange(const char *op, keel_tensor *member,
                             keel_tensor *x) {
  keel_tensor *inputs[] = {member, x}, *y = NULL;
  const keel_attr size = KEEL_INT("size", 2);
  expect_ok(keel_call(context, op, &size, 1, inputs, 2, &y, 1));
  return y;
}

/* In a process of its own: the link's thread is in a call that does not return. */
static void abort_a_stuck_link(void) {
  const float data[] = {1};
  bool (*is_stuck)(void) = NULL;
  if (open_cpu(NULL)) _exit(90);
  keel_link_abort_most = 1;
  if (open_link("stuck", 0) != KD_OK) _exit(91);
  void *library = dlopen(LINK_STANDIN, RTLD_NOW);
  if (library)
    *(void **)(void *)&is_stuck = dlsym(library, "link_standin_is_stuck");
  if (!is_stuck) _exit(92);
  exchange("keel::AllReduce", member_of(), floats(context, 1, data));
  while (!is_stuck())
    usleep(1000);
  keel_link_abort(ranks, 3, "there is no more to do");
}

/* First, while there is no other thread that a fork would lose. */
TEST_THAT(a_stuck_link_ends_with_its_process) {
  char said[256] = "";
  int ends[2], status = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    dup2(ends[1], STDERR_FILENO);
    abort_a_stuck_link();
    _exit(93);
  }
  close(ends[1]);
  for (size_t got = 0;;) {
    ssize_t more = read(ends[0], said + got, sizeof said - 1 - got);
    if (more <= 0) break;
    got += (size_t)more;
  }
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 3 ||
      !strstr(said, "rank 0: there is no more to do"))
    fail_msg("status 0x%x, \"%s\"", (unsigned)status, said);
}

TEST_BETWEEN(values_come_back, open_cpu, close_context) {
  const float data[] = {1, 2, 3}, sum[] = {2, 4, 6};
  const float joined[] = {1, 2, 3, 1, 2, 3};
  keel_link_facts facts;
  expect_ok(open_link("well", 0));
  keel_tensor *member = member_of(), *x = floats(context, 3, data);
  keel_tensor *y = exchange("keel::AllReduce", member, x);
  keel_tensor *z = exchange("keel::AllGather", member, x);
  expect_floats(y, sum, 3);
  expect_floats(z, joined, 6);
  keel_link_look(ranks, &facts);
  assert_int_equal(facts.size, 2);
  assert_int_equal(facts.exchanges, 2);
  assert_int_equal(facts.bytes, 24);
  assert_string_equal(facts.library, "a stand-in");
  RELEASE(x, y, z, member);
  keel_link_close(ranks);
}

/* In the order in which they are given, also where the second's value comes first. */
TEST_BETWEEN(exchanges_keep_their_order, open_cpu, close_context) {
  const float data[] = {1}, sum[] = {2};
  expect_ok(open_link("well", 0));
  keel_tensor *member = member_of(), *x = floats(context, 1, data);
  keel_tensor *late = create_promise(context);
  /* in a program: a call of its own would wait for the value */
  keel_builder *builder = create_builder(context, "two");
  const int64_t one = 1;
  keel_value inputs[] = {keel_builder_resource(builder, "member"),
                         keel_builder_input(builder, "a", KD_F32, 1, &one),
                         keel_builder_input(builder, "b", KD_F32, 1, &one)};
  keel_value first[] = {inputs[0], inputs[1]},
             second[] = {inputs[0], inputs[2]};
  expect_ok(keel_builder_output(
      builder, "y",
      keel_builder_op(builder, "keel::AllReduce", NULL, 0, first, 2)));
  expect_ok(keel_builder_output(
      builder, "z",
      keel_builder_op(builder, "keel::AllReduce", NULL, 0, second, 2)));
  keel_plan *plan = finish_plan(builder, NULL);
  keel_tensor *given[] = {member, late, x}, *made[2] = {NULL};
  expect_ok(keel_plan_begin(plan, NULL, given, 3, made, 2));
  usleep(20000);
  assert_int_equal(keel_tensor_query(made[1]), KD_BUSY);
  expect_ok(keel_tensor_fulfil(late, x));
  expect_floats(made[0], sum, 1);
  expect_floats(made[1], sum, 1);
  release_all(made, 2);
  RELEASE(plan, late, x, member);
  keel_link_close(ranks);
}

/* One exchange fails so, and all that come after it. */
static void expect_failure(const char *how, keel_status status,
                           const char *says) {
  const float data[] = {1};
  expect_ok(open_link(how, 300000000));
  keel_tensor *member = member_of(), *x = floats(context, 1, data);
  keel_tensor *inputs[] = {member, x},
              *y = call_op(context, "keel::AllReduce", NULL, 0, inputs, 2);
  assert_int_equal(keel_tensor_wait(y), status);
  expect_message(says);
  keel_tensor_release(y);
  assert_int_equal(
      keel_call(context, "keel::AllReduce", NULL, 0, inputs, 2, &y, 1), status);
  RELEASE(x, member);
  keel_link_close(ranks);
}

TEST_BETWEEN(failures_are_said, open_cpu, close_context) {
  expect_failure("start", KD_UNAVAILABLE, "the seventh error");
  expect_failure("test", KD_UNAVAILABLE, "the seventh error");
  expect_failure("told", KD_UNAVAILABLE, "rank 1: no disk");
  expect_failure("late", KD_DEADLINE_EXCEEDED,
                 "after 0.3 s: rank 0 waits in #1 AllReduce; rank 1 is before"
                 " #1");
  expect_failure("left", KD_DEADLINE_EXCEEDED,
                 "rank 0 waits in #1 AllReduce; rank 1 has left");
  expect_failure("silent", KD_DEADLINE_EXCEEDED,
                 "rank 0 waits in #1 AllReduce; rank 1 does not answer");
}

TEST_BETWEEN(a_failed_value_fails_the_link, open_cpu, close_context) {
  expect_ok(open_link("well", 0));
  keel_tensor *member = member_of();
  keel_tensor *bad = create_promise(context);
  expect_ok(keel_tensor_fail(bad, KD_DATA_LOSS, "it is damaged"));
  keel_tensor *inputs[] = {member, bad}, *y = NULL;
  keel_status status =
      keel_call(context, "keel::AllReduce", NULL, 0, inputs, 2, &y, 1);
  if (status == KD_OK) status = keel_tensor_wait(y);
  assert_int_equal(status, KD_DATA_LOSS);
  assert_non_null(strstr(keel_message(), "it is damaged"));
  RELEASE(y, bad, member);
  keel_link_close(ranks);
}

TEST_BETWEEN(what_cannot_be_opened_is_said, open_cpu, close_context) {
  keel_link *second = NULL;
  keel_link_params params = {.struct_size = 4, .module = LINK_STANDIN};
  assert_int_equal(keel_link_open(context, &params, &second),
                   KD_INVALID_ARGUMENT);
  params.struct_size = sizeof params;
  assert_int_equal(open_link("open", 0), KD_UNAVAILABLE);
  assert_non_null(strstr(keel_message(), "MPI cannot start"));
  params.module = CPU_PLUGIN;
  assert_int_equal(keel_link_open(context, &params, &second),
                   KD_INVALID_ARGUMENT);
  params.module = "none";
  assert_int_equal(keel_link_open(context, &params, &second), KD_NOT_FOUND);
  params.module = NULL;
  assert_int_equal(keel_link_open(context, &params, &second),
                   KD_FAILED_PRECONDITION);
  setenv("PMI_SIZE", "3", 1);
  assert_int_equal(keel_link_launched(), 3);
  assert_int_equal(open_link("well", 0), KD_FAILED_PRECONDITION);
  assert_non_null(strstr(keel_message(), "3 ranks, and a stand-in"));
  unsetenv("PMI_SIZE");
  assert_int_equal(keel_link_launched(), 0);
  expect_ok(open_link("well", 0));
  params.module = LINK_STANDIN;
  assert_int_equal(keel_link_open(context, &params, &second),
                   KD_ALREADY_EXISTS);
  keel_link_close(ranks);
}

TEST_BETWEEN(equal_programs_pass_the_check, open_cpu, close_context) {
  char got[2] = "", byte = 'k';
  expect_ok(open_link("well", 0));
  keel_builder *builder = create_builder(context, "check");
  keel_value pair[] = {keel_builder_resource(builder, "member"),
                       keel_builder_input(builder, "x", KD_F32, DIMS(2))};
  keel_program *program = program_giving(
      builder, keel_builder_op(builder, "keel::AllReduce", NULL, 0, pair, 2));
  expect_ok(keel_link_check(ranks, program));
  expect_ok(keel_link_gather(ranks, &byte, 1, got));
  assert_memory_equal(got, "kk", 2);
  keel_program_release(program);
  keel_link_close(ranks);
}

/* MPI may end an operation after its rank has given it up. */
TEST_BETWEEN(what_comes_late_harms_nobody, open_cpu, close_context) {
  char *got = calloc(2, 1), byte = 'k';
  expect_ok(open_link("afterwards", 100000000));
  assert_int_equal(keel_link_gather(ranks, &byte, 1, got),
                   KD_DEADLINE_EXCEEDED);
  *got = 0;
  usleep(300000); /* the link looks for notes ten times a second */
  assert_int_equal(*got, 0);
  free(got);
  keel_link_close(ranks);
}

/* The runtime, too, may have a member for a moment after its values are known. */
TEST_BETWEEN(a_member_may_outlive_its_link, open_cpu, close_context) {
  const float data[] = {1};
  expect_ok(open_link("well", 0));
  keel_tensor *member = member_of(), *x = floats(context, 1, data);
  keel_tensor *inputs[] = {member, x}, *y = NULL;
  keel_link_close(ranks);
  expect_fails(keel_call(context, "keel::AllReduce", NULL, 0, inputs, 2, &y, 1),
               KD_FAILED_PRECONDITION, "has been closed");
  expect_ok(open_link("well", 0)); /* another one, meanwhile */
  RELEASE(member, x);
  keel_link_close(ranks);
}

/* The last test: there is no link any more. */
TEST_BETWEEN(others_that_do_not_join_are_not_waited_for, open_cpu,
             close_context) {
  keel_link_join_least = 0;
  expect_fails(open_link("alone", 100000000), KD_DEADLINE_EXCEEDED,
               "not all other ranks have joined after");
  assert_int_equal(open_link("well", 0), KD_ALREADY_EXISTS);
}

RUN_TESTS(NULL, NULL)
