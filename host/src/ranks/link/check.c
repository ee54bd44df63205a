/* check.c - compares the exchanges of all ranks' programs before they run: those of all ranks, in
 * their order, and the Sends of each rank to another with the Receives there. */
#include "program/function.h"
#include "ranks/link/link.h"

#define WORDS 160

/* An exchange of the program: the facts that must be equal on all ranks, and its text for
 * messages. */
typedef struct listed {
  uint64_t hash;
  char words[WORDS];
} listed;

typedef struct list {
  listed *items;
  uint32_t count, capacity;
} list;

/* A Send or a Receive; its hash is of the value's type, 0 where that is not known yet. */
typedef struct message {
  uint64_t hash;
  uint32_t from, to;
  char words[WORDS];
} message;

/* The facts of a program that are compared. */
typedef struct compared {
  list all; /* exchanges of all ranks */
  message *messages;
  uint32_t message_count, message_capacity;
  uint32_t rank;
  bool
      nested; /* a Send or Receive stands in a body, which may run any number of times */
} compared;

static bool is_of_two(const keel_node *node) {
  return !strcmp(node->op->schema->name, "Send") ||
         !strcmp(node->op->schema->name, "Receive");
}

static keel_status add_message(compared *all, const keel_function *function,
                               const keel_node *node) {
  if (!KEEL_ROOM(all->messages, all->message_count, all->message_capacity))
    return KD_OUT_OF_MEMORY;
  message *made = &all->messages[all->message_count++];
  bool sends = !strcmp(node->op->schema->name, "Send");
  uint32_t peer =
      (uint32_t)keel_attr_int(node->op, sends ? "to" : "from", UINT32_MAX);
  const keel_type *type = node->outputs[0] == KEEL_ABSENT
                              ? NULL
                              : function->values[node->outputs[0]].type;
  char text[96] = "";
  *made = (message){.from = sends ? all->rank : peer,
                    .to = sends ? peer : all->rank};
  if (type) keel_type_text(type, text, sizeof text);
  if (type && keel_type_known(type))
    made->hash = keel_hash_string(KEEL_HASH_SEED, text);
  snprintf(made->words, sizeof made->words, "%s%s%.60s%s%s%.60s",
           node->op->schema->name, *node->name ? " \"" : "", node->name,
           *node->name ? "\"" : "", type ? " of " : "", text);
  return KD_OK;
}

static keel_status check_add(list *all, const keel_function *function,
                             const keel_node *node) {
  if (!KEEL_ROOM(all->items, all->count, all->capacity))
    return KD_OUT_OF_MEMORY;
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
static keel_status add_all(compared *all, const keel_function *function,
                           bool nested) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    if (node->op->schema->flags & KEEL_OP_MEETS) {
      bool of_two = is_of_two(node);
      all->nested |= of_two && nested;
      KEEL_TRY(of_two ? add_message(all, function, node)
                      : check_add(&all->all, function, node));
    }
    for (uint32_t k = 0; k < node->op->attr_count; k++)
      if (node->op->attrs[k].graph)
        KEEL_TRY(add_all(all, node->op->attrs[k].graph, true));
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

/* Rank 0's exchange there, and that of the first rank that differs. */
static keel_status check_say(keel_link *link, const list *all, uint32_t first) {
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

/* ---- Sends and Receives ------------------------------------------------------------------ */

/* The n-th message from one rank to another in a list; NULL: there is none. */
static const message *check_find(const message *list, uint32_t count,
                                 uint32_t from, uint32_t to, uint32_t n) {
  for (uint32_t i = 0; i < count; i++)
    if (list[i].from == from && list[i].to == to && n-- == 0) return &list[i];
  return NULL;
}

static keel_status fail_message(uint32_t from, uint32_t to, uint32_t n,
                                const message *sent, const message *received) {
  return keel_fail(
      KD_INVALID_ARGUMENT,
      "the ranks' programs differ at message %u of rank %u to rank %u:"
      " the one has %s, and the other %s",
      (unsigned)n + 1, (unsigned)from, (unsigned)to,
      sent ? sent->words : "no Send any more",
      received ? received->words : "no Receive any more");
}

/* `lists` has `most` of each rank, of which the first `counts` are. */
static keel_status compare_messages(const message *lists,
                                    const uint64_t *counts, uint64_t most,
                                    uint32_t size) {
  for (uint32_t from = 0; from < size; from++)
    for (uint32_t to = 0; to < size; to++)
      for (uint32_t n = 0; n <= most; n++) {
        const message *sent = check_find(lists + from * most,
                                         (uint32_t)counts[from], from, to, n);
        const message *received =
            check_find(lists + to * most, (uint32_t)counts[to], from, to, n);
        if (!sent && !received) break;
        bool known = sent && received && sent->hash && received->hash;
        if (!sent || !received || (known && sent->hash != received->hash))
          return fail_message(from, to, n, sent, received);
      }
  return KD_OK;
}

/* All ranks' lists, each as long as the longest. */
static keel_status check_messages(keel_link *link, const compared *all) {
  uint32_t size = link->world.size;
  uint64_t mine = all->nested ? UINT64_MAX : all->message_count, most = 0;
  uint64_t *counts = calloc(size, sizeof *counts);
  if (!counts) return keel_no_memory(size * sizeof *counts);
  keel_status status = keel_link_gather(link, &mine, sizeof mine, counts);
  for (uint32_t i = 0; i < size; i++)
    if (counts[i] > most) most = counts[i];
  if (status == KD_OK && most && most < UINT64_MAX) {
    message *own = calloc(most, sizeof *own);
    message *lists = calloc(most * size, sizeof *lists);
    status = own && lists ? KD_OK : keel_no_memory(most * sizeof *own);
    if (status == KD_OK && mine) memcpy(own, all->messages, mine * sizeof *own);
    if (status == KD_OK)
      status = keel_link_gather(link, own, most * sizeof *own, lists);
    if (status == KD_OK) status = compare_messages(lists, counts, most, size);
    free(own);
    free(lists);
  }
  free(counts);
  return status;
}

keel_status keel_link_check(keel_link *link, const keel_program *program) {
  compared own = {.rank = link->world.rank};
  uint32_t least = 0, first = 0;
  bool equal = true;
  keel_status status = add_all(&own, program->main, false);
  if (status == KD_OK) status = compare_counts(link, &own.all, &least, &equal);
  if (status == KD_OK) status = first_other(link, &own.all, least, &first);
  if (status == KD_OK && (first < least || !equal))
    status = check_say(link, &own.all, first);
  if (status == KD_OK) status = check_messages(link, &own);
  free(own.all.items);
  free(own.messages);
  return status;
}
