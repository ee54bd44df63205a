/* check.c - compares the exchanges of all ranks' programs before they run. */
#include "link/link.h"
#include "program/function.h"

#define WORDS 160

/* An exchange of the program: what must be equal for all ranks, and words for people. */
typedef struct listed {
  uint64_t hash;
  char words[WORDS];
} listed;

typedef struct list {
  listed *items;
  uint32_t count, room;
} list;

static keel_status add(list *all, const keel_function *function,
                       const keel_node *node) {
  if (!KEEL_ROOM(all->items, all->count, all->room)) return KD_OUT_OF_MEMORY;
  listed *made = &all->items[all->count++];
  *made = (listed){
      .hash = keel_hash_string(KEEL_HASH_SEED, node->op->schema->name)};
  for (uint32_t i = 0; i < node->op->attr_count; i++)
    made->hash = keel_attr_hash(made->hash, &node->op->attrs[i].value);
  const keel_type *type =
      node->input_count > 1 && node->inputs[1] != KEEL_ABSENT
          ? function->values[node->inputs[1]].type
          : NULL;
  char text[96] = "";
  if (type) {
    keel_type_text(type, text, sizeof text);
    made->hash = keel_hash_string(made->hash, text);
  }
  snprintf(made->words, sizeof made->words, "%s%s%.60s%s%s%.60s",
           node->op->schema->name, *node->name ? " \"" : "", node->name,
           *node->name ? "\"" : "", type ? " of " : "", text);
  return KD_OK;
}

/* In the order in which they stand; those of a node's bodies at the node. */
static keel_status add_all(list *all, const keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    if (node->op->schema->flags & KEEL_OP_MEETS)
      KEEL_TRY(add(all, function, node));
    for (uint32_t k = 0; k < node->op->attr_count; k++)
      if (node->op->attrs[k].graph)
        KEEL_TRY(add_all(all, node->op->attrs[k].graph));
  }
  return KD_OK;
}

/* The fewest that any rank has, and whether all have as many. */
static keel_status compare_counts(keel_link *link, const list *all,
                                  uint32_t *out_least, bool *out_equal) {
  uint64_t mine = all->count;
  uint64_t *counts = calloc(link->world.size, sizeof *counts);
  if (!counts) return keel_no_memory(link->world.size * sizeof *counts);
  keel_status status = keel_link_gather(link, &mine, sizeof mine, counts);
  *out_least = all->count;
  *out_equal = true;
  for (uint32_t i = 0; i < link->world.size; i++) {
    if (counts[i] < *out_least) *out_least = (uint32_t)counts[i];
    *out_equal &= counts[i] == mine;
  }
  free(counts);
  return status;
}

/* The first that differs among those that all have; `least` where none does. */
static keel_status first_other(keel_link *link, const list *all, uint32_t least,
                               uint32_t *out_first) {
  *out_first = least;
  if (!least) return KD_OK;
  uint64_t *mine = calloc(least, sizeof *mine);
  uint64_t *hashes = calloc((size_t)least * link->world.size, sizeof *hashes);
  keel_status status =
      mine && hashes ? KD_OK : keel_no_memory(least * sizeof *hashes);
  for (uint32_t i = 0; mine && i < least; i++)
    mine[i] = all->items[i].hash;
  if (status == KD_OK)
    status = keel_link_gather(link, mine, least * sizeof *mine, hashes);
  for (uint32_t i = 0; status == KD_OK && i < least && *out_first == least; i++)
    for (uint32_t r = 1; r < link->world.size; r++)
      if (hashes[r * least + i] != hashes[i]) *out_first = i;
  free(mine);
  free(hashes);
  return status;
}

/* What rank 0 has there, and the first rank that has something else. */
static keel_status say(keel_link *link, const list *all, uint32_t first) {
  listed none = {0, "nothing more"};
  const listed *mine = first < all->count ? &all->items[first] : &none;
  listed *theirs = calloc(link->world.size, sizeof *theirs);
  if (!theirs) return keel_no_memory(link->world.size * sizeof *theirs);
  keel_status status = keel_link_gather(link, mine, sizeof *mine, theirs);
  uint32_t other = 0;
  while (other + 1 < link->world.size && theirs[other].hash == theirs[0].hash)
    other++;
  if (status == KD_OK)
    status = keel_fail(
        KD_INVALID_ARGUMENT,
        "the ranks' programs differ at exchange %u: rank 0 has %s, and rank %u"
        " has %s%s",
        (unsigned)first + 1, theirs[0].words, (unsigned)other,
        theirs[other].words,
        strcmp(theirs[0].words, theirs[other].words)
            ? ""
            : " with other attributes");
  free(theirs);
  return status;
}

keel_status keel_link_check(keel_link *link, const keel_program *program) {
  list all = {0};
  uint32_t least = 0, first = 0;
  bool equal = true;
  keel_status status = add_all(&all, program->main);
  if (status == KD_OK) status = compare_counts(link, &all, &least, &equal);
  if (status == KD_OK) status = first_other(link, &all, least, &first);
  if (status == KD_OK && (first < least || !equal))
    status = say(link, &all, first);
  free(all.items);
  return status;
}
