/* partition_test.c - which claimed nodes become one: on small graphs all at once, and on
 * random ones against the definition. */
#include "../bridge.h"
#include "tests.h"

#define NODES 10

typedef struct sample {
  uint32_t count;
  bool claimed[NODES];
  partition_edge edges[NODES * NODES];
  size_t edge_count;
  uint32_t group[NODES], groups;
} sample;

static void run(sample *one) {
  one->groups = partition(one->count, one->claimed, one->edges, one->edge_count,
                          one->group);
}

/* Whether the graph of groups (nodes of none are groups of their own) has a
 * cycle, and so whether a path leaves a group and comes back. */
static bool contracted_has_cycle(const sample *one) {
  bool reach[NODES * 2][NODES * 2] = {{false}};
  uint32_t count = one->groups + one->count;
  for (size_t i = 0; i < one->edge_count; i++) {
    uint32_t from = one->edges[i].from, to = one->edges[i].to;
    uint32_t a =
        one->group[from] == NO_GROUP ? one->groups + from : one->group[from];
    uint32_t b = one->group[to] == NO_GROUP ? one->groups + to : one->group[to];
    if (a != b) reach[a][b] = true;
  }
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t i = 0; i < count; i++)
      for (uint32_t j = 0; j < count; j++)
        reach[i][j] |= reach[i][k] && reach[k][j];
  for (uint32_t i = 0; i < count; i++)
    if (reach[i][i]) return true;
  return false;
}

static void expect_valid(const sample *one) {
  bool used[NODES] = {false};
  assert_true(one->groups <= one->count);
  for (uint32_t i = 0; i < one->count; i++) {
    assert_int_equal(one->group[i] != NO_GROUP, one->claimed[i]);
    if (!one->claimed[i]) continue;
    assert_true(one->group[i] < one->groups);
    used[one->group[i]] = true;
  }
  for (uint32_t i = 0; i < one->groups; i++)
    assert_true(used[i]);
  assert_false(contracted_has_cycle(one));
}

/* The most nodes of none that must stand one behind the other between claimed
 * ones on a path: no order has fewer groups than these plus one. */
static uint32_t fewest(const sample *one) {
  uint32_t level[NODES] = {0}, most = 0;
  bool any = false;
  /* edges go from lower to higher numbers: a claimed node's level is in how
   * many groups, at least, what it needs stands, itself included */
  for (uint32_t to = 0; to < one->count; to++) {
    uint32_t at = one->claimed[to] ? 1 : 0;
    for (size_t i = 0; i < one->edge_count; i++) {
      if (one->edges[i].to != to) continue;
      uint32_t from = one->edges[i].from;
      uint32_t need = level[from] + (one->claimed[to] && !one->claimed[from]);
      if (need > at) at = need;
    }
    level[to] = at;
    any |= one->claimed[to];
    if (one->claimed[to] && at > most) most = at;
  }
  return any ? most : 0;
}

static sample random_sample(uint32_t seed) {
  sample one = {0};
  srand(seed);
  one.count = 1 + (uint32_t)rand() % NODES;
  uint32_t density = (uint32_t)rand() % 100;
  for (uint32_t i = 0; i < one.count; i++) {
    one.claimed[i] = rand() % 3 != 0;
    for (uint32_t j = 0; j < i; j++)
      if ((uint32_t)rand() % 100 < density)
        one.edges[one.edge_count++] = (partition_edge){j, i};
  }
  return one;
}

TEST_THAT(random_graphs_get_the_fewest_groups) {
  for (uint32_t seed = 0; seed < 20000; seed++) {
    sample one = random_sample(seed);
    run(&one);
    expect_valid(&one);
    assert_int_equal(one.groups, fewest(&one));
  }
}

TEST_THAT(a_chain_is_cut_where_it_leaves) {
  sample one = {.count = 5,
                .claimed = {true, true, false, true, true},
                .edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}},
                .edge_count = 4};
  run(&one);
  assert_int_equal(one.groups, 2);
  assert_int_equal(one.group[0], one.group[1]);
  assert_int_equal(one.group[3], one.group[4]);
  assert_int_not_equal(one.group[1], one.group[3]);
}

/* 0 and 4 are apart in the order that was given, and nothing is between. */
TEST_THAT(what_stands_apart_comes_together) {
  sample one = {.count = 5,
                .claimed = {true, false, false, false, true},
                .edges = {{1, 2}, {2, 3}, {0, 4}},
                .edge_count = 3};
  run(&one);
  assert_int_equal(one.groups, 1);
}

/* Claimed nodes behind others that need nothing: whoever begins. */
TEST_THAT(the_better_beginning_is_taken) {
  sample one = {.count = 3,
                .claimed = {true, false, true},
                .edges = {{1, 2}, {0, 2}},
                .edge_count = 2};
  run(&one);
  assert_int_equal(one.groups, 1);
}

TEST_THAT(an_edge_may_come_twice) {
  sample one = {.count = 2,
                .claimed = {true, true},
                .edges = {{0, 1}, {0, 1}},
                .edge_count = 2};
  run(&one);
  assert_int_equal(one.groups, 1);
}

TEST_THAT(nothing_claimed_is_no_group) {
  sample one = {.count = 2, .edges = {{0, 1}}, .edge_count = 1};
  sample none = {0};
  run(&one);
  assert_int_equal(one.groups, 0);
  run(&none);
  assert_int_equal(none.groups, 0);
}

TEST_THAT(a_cycle_is_an_error) {
  sample one = {.count = 3,
                .claimed = {true, true, true},
                .edges = {{0, 1}, {1, 2}, {2, 1}},
                .edge_count = 3};
  run(&one);
  assert_int_equal(one.groups, NO_GROUP);
}

RUN_TESTS(NULL, NULL)
