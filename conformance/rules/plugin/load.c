/* load.c - finding the entry, versions, opening and closing. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layers/slots.h"
#include "rules/rules.h"
#include "system/environment.h"

extern char **environ;

/* ---- the library ------------------------------------------------------------------------ */

static void load_open(void) {
  void *library = dlopen(kc.plugin, RTLD_NOW | RTLD_LOCAL);
  kc_check(library != NULL, "dlopen says: %s", library ? "" : dlerror());
}

static void load_entry_symbol(void) {
  void *library = dlopen(kc.plugin, RTLD_NOW | RTLD_LOCAL);
  if (!library) kc_stop("dlopen says: %s", dlerror());
  kd_entry entry = NULL;
  *(void **)&entry = dlsym(library, KD_ENTRY_SYMBOL);
  if (!kc_check(entry != NULL, "the library exports no %s", KD_ENTRY_SYMBOL))
    return;
  const kd_plugin *table = KC_CALL(const kd_plugin *, entry(kc_services()),
                                   KD_ENTRY_SYMBOL "(host)");
  kc_check(table != NULL, "%s returned NULL: %s", KD_ENTRY_SYMBOL,
           kc_message());
  const kd_plugin *again = KC_CALL(const kd_plugin *, entry(kc_services()),
                                   KD_ENTRY_SYMBOL "(host)");
  kc_check(table == again, "%s returned another table the second time",
           KD_ENTRY_SYMBOL);
}

/* Names of the global symbols that the file defines. */
static void load_exports_only(void) {
  int fd = open(kc.plugin, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (fd < 0 || fstat(fd, &facts) != 0) kc_stop("the file can't be read");
  const char *file =
      mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) kc_stop("the file can't be mapped");
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file;
  if ((uint64_t)facts.st_size < sizeof *head ||
      memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_shoff + (uint64_t)head->e_shnum * sizeof(Elf64_Shdr) >
          (uint64_t)facts.st_size)
    kc_unclaimed("the file has no section table to look at");
  const Elf64_Shdr *sections =
      (const Elf64_Shdr *)(const void *)(file + head->e_shoff);
  bool found = false;
  for (int i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbols =
        (const Elf64_Sym *)(const void *)(file + sections[i].sh_offset);
    const char *names = file + sections[sections[i].sh_link].sh_offset;
    for (uint64_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
      const char *name = names + symbols[s].st_name;
      int bind = ELF64_ST_BIND(symbols[s].st_info);
      int see = ELF64_ST_VISIBILITY(symbols[s].st_other);
      if (symbols[s].st_shndx == SHN_UNDEF || bind == STB_LOCAL ||
          see == STV_HIDDEN)
        continue;
      bool entry = !strncmp(name, "kd_entry_", 9);
      bool linker = name[0] == '_' || !strncmp(name, "kd_", 3);
      found |= entry;
      kc_check(entry || linker, "it exports \"%s\"", name);
    }
  }
  kc_check(found, "its dynamic symbols have no kd_entry_*");
  munmap((void *)(uintptr_t)file, (size_t)facts.st_size);
}

static void load_no_work(void) {
  uint32_t before = kc_entries("/proc/self/task");
  uint64_t begin = kc_now();
  int live = atomic_load(&kc_host.live);
  void *library = dlopen(kc.plugin, RTLD_NOW | RTLD_LOCAL);
  if (!library) kc_stop("dlopen says: %s", dlerror());
  kd_entry entry = NULL;
  *(void **)&entry = dlsym(library, KD_ENTRY_SYMBOL);
  if (!entry) kc_stop("no %s", KD_ENTRY_SYMBOL);
  KC_CALL(const kd_plugin *, entry(kc_services()), KD_ENTRY_SYMBOL "(host)");
  uint64_t time = kc_now() - begin;
  kc_check(kc_entries("/proc/self/task") == before,
           "%u threads run before open",
           kc_entries("/proc/self/task") - before);
  kc_check(atomic_load(&kc_host.live) == live,
           "the entry function allocated memory");
  kc_check((double)time < 500e6 * kc.factor,
           "loading took %.0f ms before anything was asked",
           (double)time / 1e6);
  kc_note("%.1f ms to load", (double)time / 1e6);
}

static void load_versions(void) {
  kc_load();
  kc_check(KD_VERSION_MAJOR(kp.p.abi_version) == KD_ABI_MAJOR,
           "abi_version is %u.%u, and the entry is of major %u",
           KD_VERSION_MAJOR(kp.p.abi_version),
           KD_VERSION_MINOR(kp.p.abi_version), KD_ABI_MAJOR);
  kc_check(kp.p.abi_min <= kp.p.abi_version,
           "abi_min (%u.%u) is above abi_version (%u.%u)",
           KD_VERSION_MAJOR(kp.p.abi_min), KD_VERSION_MINOR(kp.p.abi_min),
           KD_VERSION_MAJOR(kp.p.abi_version),
           KD_VERSION_MINOR(kp.p.abi_version));
  kc_check(kp.p.opset < 1000, "opset is %u: it is KD_OPSET of kd/base.h",
           kp.p.opset);
  kc_check(!kp.p.abi_min || KD_VERSION_MAJOR(kp.p.abi_min) == KD_ABI_MAJOR,
           "abi_min is of another major");
}

static void load_struct_size(void) {
  kc_load();
  kc_check(kp.table->struct_size >= offsetof(kd_plugin, opset),
           "kd_plugin.struct_size is %u, less than its needed slots",
           kp.table->struct_size);
  kc_check(kp.table->struct_size % 8 == 0 && kp.table->struct_size < 65536,
           "kd_plugin.struct_size is %u", kp.table->struct_size);
}

static void load_needed_slots(void) {
  kc_load();
  kc_check(kp.p.memory != NULL, "memory is NULL");
  const keel_slot *missing = keel_slot_missing("kd_plugin", &kp.p);
  if (!missing) missing = keel_slot_missing("kd_memory_table", &kp.m);
  kc_check(!missing, "the needed slot %s is NULL",
           missing ? missing->name : "");
  kc_check(kp.p.kernels || !kp.p.kernel_count,
           "kernels is NULL, kernel_count is %u", kp.p.kernel_count);
}

bool kc_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at) {
    int more = *at < 0x80             ? 0
               : (*at & 0xe0) == 0xc0 ? 1
               : (*at & 0xf0) == 0xe0 ? 2
               : (*at & 0xf8) == 0xf0 ? 3
                                      : -1;
    if (more < 0) return false;
    for (at++; more--; at++)
      if ((*at & 0xc0) != 0x80) return false;
  }
  return true;
}

static void load_name(void) {
  kc_load();
  const char *name = kp.p.name;
  KC_NEED(name != NULL, "name is NULL");
  size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
  kc_check(size == strlen(name) && size >= 1 && size <= 32 && name[0] >= 'a' &&
               name[0] <= 'z',
           "the name \"%.60s\" does not match [a-z][a-z0-9_-]{0,31}", name);
  kc_check(kp.p.vendor && *kp.p.vendor && kc_utf8(kp.p.vendor), "vendor is %s",
           kp.p.vendor ? "no UTF-8 text" : "NULL");
  kc_check(kp.p.version && *kp.p.version && kc_utf8(kp.p.version),
           "version is %s", kp.p.version ? "no UTF-8 text" : "NULL");
}

static void load_flags(void) {
  kc_load();
  kc_check((kp.p.flags & ~KD_PLUGIN_UNLOADABLE & ~KD_HINTS) == 0,
           "kd_plugin.flags has unknown bits: 0x%x", kp.p.flags);
}

static uint64_t table_hash(void) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const struct {
    const void *table;
    size_t most;
  } tables[] = {{kp.table, sizeof(kd_plugin)},
                {kp.p.memory, sizeof(kd_memory_table)},
                {kp.p.streams, sizeof(kd_stream_table)},
                {kp.p.events, sizeof(kd_event_table)},
                {kp.p.capture, sizeof(kd_capture_table)},
                {kp.p.regions, sizeof(kd_region_table)},
                {kp.p.profile, sizeof(kd_profile_table)}};
  for (size_t i = 0; i < KC_COUNT_OF(tables); i++) {
    uint32_t size = 0;
    if (!tables[i].table) continue;
    memcpy(&size, tables[i].table, sizeof size);
    if (size > tables[i].most) size = (uint32_t)tables[i].most;
    const unsigned char *at = tables[i].table;
    for (uint32_t k = 0; k < size; k++)
      hash = (hash ^ at[k]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static void load_table_const(void) {
  kc_load();
  uint64_t before = table_hash();
  kc_ok(kc_open(), "open");
  kc_check(table_hash() == before, "open changed a table");
  kc_need_device();
  kc_check(table_hash() == before, "device_open changed a table");
  kc_buffer *buffer = kc_buffer_make(4096);
  for (int i = 0; i < 200; i++)
    kc_write(buffer, 0, &i, sizeof i);
  kc_check(table_hash() == before, "200 copies changed a table");
  kc_tidy();
  kc_check(table_hash() == before, "close changed a table");
}

/* ---- opening ---------------------------------------------------------------------------------- */

static void open_five_times(void) {
  kc_load();
  char first[160] = "";
  uint32_t count = 0;
  for (int i = 0; i < 5; i++) {
    kc_ok(kc_open(), i ? "open after close" : "open");
    uint32_t now =
        KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count");
    kc_check(i == 0 || now == count, "%u devices, %u before the close", now,
             count);
    count = now;
    if (now) {
      const kd_device_info *info = kc_info_at(0);
      kc_check(i == 0 || !strcmp(first, info->name),
               "device 0 is \"%s\", \"%s\" before the close", info->name,
               first);
      snprintf(first, sizeof first, "%s", info->name);
      kc_device_at(0);
    }
    kc_close_devices();
    kc_close();
  }
}

static void load_twice(void) {
  if (kc_case("five-times")) open_five_times();
  if (kc_device_count()) kc_ops_again(true);
}

static char *copy_as(const char *folder, const char *name) {
  static char path[700];
  char buffer[65536];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *from = fopen(kc.plugin, "rbe"), *to = fopen(path, "wbe");
  size_t got = 0;
  while (from && to && (got = fread(buffer, 1, sizeof buffer, from)) > 0)
    fwrite(buffer, 1, got, to);
  if (from) fclose(from);
  if (!to || fclose(to) != 0) kc_stop("%s can't be written", path);
  return path;
}

static void load_alongside(void) {
  kc_helper_ends("twice", copy_as(kc.scratch ? kc.scratch : "/tmp", "other.so"),
                 7, "beside a second copy of itself");
}

static void load_two_hosts(void) {
  kc_helper_ends("hosts", "", 9, "with a second host");
}

static void load_renamed(void) {
  const char *own = kc.plugin;
  const char *folder = kc.scratch ? kc.scratch : "/tmp";
  kc.plugin = copy_as(folder, "renamed-plugin-1.so");
  kc_helper_ends("open", "", 0, "under another name");
  char link[700];
  snprintf(link, sizeof link, "%s/link.so", folder);
  unlink(link);
  if (symlink(own, link) == 0) {
    kc.plugin = link;
    kc_helper_ends("open", "", 0, "through a symbolic link");
  }
  kc.plugin = own;
  /* the working directory is an empty one, here and for all rules */
  if (kc_device_count()) kc_smoke();
}

static void load_bare_environment(void) {
  /* what not even root can make */
  static char home[] = "HOME=/dev/null/none", temp[] = "TMPDIR=/dev/null/none";
  static char path[4200];
  static char own_mode[200];   /* of the suite's simulated device */
  static char sanitizer[4200]; /* without which the plugin does not start */
  char cwd[512], *bare[6] = {home, temp}, **own = environ;
  int count = 2;
  const char *libraries = keel_environment("LD_LIBRARY_PATH");
  if (libraries) {
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", libraries);
    bare[count++] = path;
  }
  if (kc_is_sanitized()) {
    snprintf(sanitizer, sizeof sanitizer, "LD_PRELOAD=%s",
             keel_environment("LD_PRELOAD"));
    bare[count++] = sanitizer;
  }
  if (keel_environment("KEEL_SIM")) {
    snprintf(own_mode, sizeof own_mode, "KEEL_SIM=%s",
             keel_environment("KEEL_SIM"));
    bare[count++] = own_mode;
  }
  if (!getcwd(cwd, sizeof cwd) || chdir("/") != 0)
    kc_stop("the suite can't change its folder");
  environ = bare;
  kc_helper_ends("open", "", 0, "without environment and a writable home");
  environ = own;
  if (chdir(cwd) != 0) kc_stop("the suite can't change its folder back");
}

/* Opens it, and a device, with one option; whatever is refused, is so with a message. */
static void open_with(const char *option) {
  kc.options = &option;
  kc.option_count = 1;
  kd_status status = kc_open();
  kc_check(status == KD_OK || *kc_message(),
           "open refused the option \"%.60s\" (%zu bytes) without a message",
           option, strlen(option));
  kd_device *device = NULL;
  if (status == KD_OK && kp.p.device_count(kp.instance) > kc.device) {
    kc_hush();
    status =
        KC_CALL(kd_status, kp.p.device_open(kp.instance, kc.device, &device),
                "device_open with the option %.40s", option);
    kc_check(status == KD_OK || *kc_message(),
             "device_open refused the option \"%.60s\" (%zu bytes) without a"
             " message",
             option, strlen(option));
    if (status == KD_OK) kp.p.device_close(device);
  }
  kc_close();
  kc.options = NULL;
  kc.option_count = 0;
}

/* Values of any length and kind, for each option that the plugin asks for. */
static void load_option_values(void) {
  enum { LONG = 65536 };
  static const char *const odd[] = {
      "", "-1", "1e99", "%s%n%s%n", "\xff\xfe", "0x", "99999999999999999999"};
  char *option = kc_lend(LONG + 80);
  const char *name = NULL;
  open_with("=");
  for (uint32_t i = 0; (name = kc_option_asked(i)); i++) {
    for (size_t k = 0; k < KC_COUNT_OF(odd); k++) {
      sprintf(option, "%s=%s", name, odd[k]);
      open_with(option);
    }
    for (size_t size = 63; size <= LONG; size = size < 300    ? 300
                                                : size < LONG ? LONG
                                                              : LONG + 1) {
      int used = sprintf(option, "%s=", name);
      memset(option + used, 'a', size);
      option[(size_t)used + size] = 0;
      open_with(option);
    }
  }
}

static void load_options(void) {
  static const char *const odd[] = {"no-such-option-of-this-plugin=1",
                                    "threads=", "x=\xff\xfe", "=", "a=b=c"};
  kc_load();
  for (size_t i = 0; i < KC_COUNT_OF(odd); i++) {
    kc.options = odd + i;
    kc.option_count = 1;
    kd_status status = kc_open();
    kc_check(status == KD_OK || *kc_message(),
             "open refused the option \"%s\" without a message", odd[i]);
    kc_close();
  }
  kc.option_count = 0;
  load_option_values();
}

static void load_device_count_zero(void) {
  uint32_t count = kc_device_count();
  if (!count)
    kc_check(atomic_load(&kc_host.logs) > 0,
             "there is no device, and host->log was not told why");
  kc_check(count <= 4096, "device_count gives %u", count);
}

static void load_open_refusal(void) {
  kc_load();
  kd_host *host = kc_services_copy();
  host->abi_version = KD_VERSION(KD_ABI_MAJOR, 1);
  kd_status status = KC_CALL(kd_status, kp.p.open(host, &kp.instance),
                             "open(host of an old version)");
  if (kp.p.abi_min && kp.p.abi_min > host->abi_version)
    kc_check(status == KD_OK || status == KD_INCOMPATIBLE,
             "open by a host that is too old returned %s",
             kd_status_name(status));
  kc_check(status == KD_OK || *kc_message(),
           "open refused an old host without a message");
  if (status == KD_OK) KC_DO(kp.p.close(kp.instance), "close()");
}

static void load_fork_exec(void) {
  char path[64], line[64] = "";
  if (kc_device_count()) kc_device();
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *file = fopen(path, "re");
  if (!file) kc_unclaimed("this kernel does not list a process's children");
  if (!fgets(line, sizeof line, file)) line[0] = 0;
  fclose(file);
  kc_check(line[0] == 0, "open started another process: %s", line);
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "load.open", load_open, KC_CLOSED, "kd.h",
            "A plugin is one shared library that exports one function",
            "kd_entry KD_ENTRY",
            "A library that is missing, or found only where the plugin was"
            " built, is the commonest reason why a plugin does not load; ldd -r"
            " shows it."),
    KC_RULE(MUST, CORE, "load.entry-symbol", load_entry_symbol, KC_CLOSED,
            "plugin.h", "The host looks up the name",
            "KD_ENTRY_SYMBOL kd_entry KD_ENTRY_LINKAGE KD_EXPORT KD_ABI_MAJOR",
            "A C++ compiler mangles the name unless it is extern \"C\", and"
            " -fvisibility=hidden hides it unless it is exported: KD_ENTRY does"
            " both."),
    KC_RULE(SHOULD, CORE, "load.exports-only", load_exports_only, KC_CLOSED,
            "plugin.h", "It should export nothing but its entry function",
            "KD_EXPORT kd_entry",
            "A symbol named init or log can be bound by another library in the"
            " process, or bind to its. Build with -fvisibility=hidden."),
    KC_RULE(
        MUST, CORE, "load.no-work-before-open", load_no_work,
        KC_CLOSED | KC_ALONE, "plugin.h",
        "The function does nothing but return the table",
        "kd_entry kd_host.allocate",
        "Hosts load every plugin that they find, only to list them: a driver"
        " that starts there costs each program its start-up time."),
    KC_RULE(MUST, CORE, "load.versions", load_versions, KC_CLOSED, "base.h",
            "each states the version it was built with and the lowest that it"
            " can work with",
            "kd_plugin.abi_version kd_plugin.abi_min KD_ABI_VERSION KD_VERSION"
            " kd_plugin.opset KD_OPSET"
            " KD_VERSION_MAJOR KD_VERSION_MINOR KD_ABI_MINOR",
            "A host that can't tell whether it fits must refuse; write"
            " KD_ABI_VERSION, never a number."),
    KC_RULE(MUST, CORE, "load.struct-size", load_struct_size, KC_CLOSED,
            "base.h", "Every table and descriptor begins with `struct_size`",
            "kd_plugin.struct_size",
            "The host takes what lies past struct_size as absent: too small a"
            " value hides slots, too large a one makes it read past the"
            " table."),
    KC_RULE(MUST, CORE, "load.needed-slots", load_needed_slots, KC_CLOSED,
            "plugin.h",
            "Required are the three strings, `memory`, and all slots up to"
            " device_close except `space`",
            "kd_plugin.open kd_plugin.close kd_plugin.device_count"
            " kd_plugin.device_info kd_plugin.device_open"
            " kd_plugin.device_close kd_plugin.memory kd_plugin.kernels"
            " kd_plugin.kernel_count kd_memory_table.allocate"
            " kd_memory_table.release kd_memory_table.copy_in"
            " kd_memory_table.copy_out",
            "The host refuses the plugin without them."),
    KC_RULE(MUST, CORE, "load.name-valid", load_name, KC_CLOSED, "plugin.h",
            "[a-z][a-z0-9_-]{0,31}; devices are name:0, name:1",
            "kd_plugin.name kd_plugin.vendor kd_plugin.version",
            "Users type the name in KEEL_DEVICE and on command lines; it must"
            " be one word."),
    KC_RULE(MUST, CORE, "load.flags", load_flags, KC_CLOSED, "base.h",
            "a reader that does not know the bit refuses the object with"
            " KD_UNIMPLEMENTED",
            "kd_plugin.flags KD_PLUGIN_UNLOADABLE KD_HINTS",
            "A bit that a later version defines must not be set by accident."),
    KC_RULE(MUST, CORE, "load.table-const", load_table_const, KC_CLOSED,
            "plugin.h", "so a plugin never changes them", "kd_plugin",
            "The host copied the tables at load; a slot that is filled in open"
            " is never called."),
    KC_RULE(MUST, CORE, "load.open-again", load_twice, KC_CLOSED | KC_CASES,
            "plugin.h",
            "After `close` the plugin no longer calls that host, and may be"
            " opened again",
            "kd_plugin.open kd_plugin.close kd_plugin.device_open"
            " kd_plugin.device_close",
            "Static state that close does not reset makes the second open fail"
            " or see half of the devices, or an op read what is gone."),
    KC_RULE(MUST, CORE, "load.alongside", load_alongside, KC_CLOSED, "plugin.h",
            "Several copies of a plugin may be loaded in one process",
            "kd_plugin.open kd_plugin.device_open",
            "Two products may each bring the plugin. Global names that leak"
            " bind one copy's calls to the other's state."),
    KC_RULE(
        MUST, CORE, "load.two-hosts", load_two_hosts, KC_CLOSED, "plugin.h",
        "each opens its own instance, independent of the others",
        "kd_plugin.open kd_plugin.close kd_instance",
        "Two wheels of one process may each bring a runtime. An instance that"
        " they share calls the wrong host, and ends with the first of them."),
    KC_RULE(MUST, CORE, "load.copy-and-rename", load_renamed, KC_CLOSED,
            "plugin.h", "It works under any file name and from any directory",
            "kd_host.plugin_path kd_plugin.open",
            "Packagers rename files. What the plugin needs beside it, it finds"
            " by kd_host.plugin_path."),
    KC_RULE(MUST, CORE, "load.bare-environment", load_bare_environment,
            KC_CLOSED, "plugin.h",
            "It needs no environment variable and no writable home"
            " directory",
            "kd_plugin.open kd_plugin.device_info",
            "Services run with neither. A cache that can't be written is no"
            " reason to fail."),
    KC_RULE(MUST, CORE, "load.options-unknown", load_options, KC_CLOSED,
            "host.h",
            "A plugin ignores options that it does not know, and refuses a"
            " value that it cannot use with a message",
            "kd_host.option",
            "strlen of a NULL option, or atoi of an empty one, takes the whole"
            " application down."),
    KC_RULE(MUST, CORE, "load.says-why-no-device", load_device_count_zero,
            KC_CLOSED, "plugin.h", "and host->log says why",
            "kd_plugin.device_count kd_host.log",
            "\"No devices\" without a reason costs users hours: say which"
            " driver or permission is missing."),
    KC_RULE(MUST, CORE, "load.old-host", load_open_refusal, KC_CLOSED,
            "plugin.h",
            "KD_UNAVAILABLE (driver missing or broken; host->fail says"
            " why), KD_INCOMPATIBLE",
            "kd_host.abi_version kd_host.abi_min kd_plugin.open"
            " KD_INCOMPATIBLE KD_UNAVAILABLE",
            "A plugin that checks the host's version for equality stops working"
            " with each release of the host."),
    KC_RULE(SHOULD, CORE, "load.no-fork", load_fork_exec, KC_CLOSED, "plugin.h",
            "It starts no other process", "kd_plugin.open",
            "Child processes outlive the host, inherit its descriptors, and are"
            " forbidden in many sandboxes."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(needs_library, "load.open", KC_LIBRARY, "it needs a library of the build folder"),
    DEFECT_AS(entry_null, "load.entry-symbol", KC_AROUND, "the entry function returns NULL"),
    DEFECT_AS(entry_other_table, "load.entry-symbol", KC_AROUND, "each call of the entry gives another table"),
    DEFECT_AS(no_entry, "load.entry-symbol", KC_LIBRARY, "the entry symbol is misspelt"),
    DEFECT_AS(exports_more, "load.exports-only", KC_LIBRARY, "it exports init and log"),
    DEFECT_AS(entry_thread, "load.no-work-before-open", KC_AROUND, "a thread is started when the library loads"),
    DEFECT(entry_allocates, "load.no-work-before-open", "the entry function allocates"),
    DEFECT_AS(abi_min_above, "load.versions", KC_AROUND, "the lowest version is above the one it was built with"),
    DEFECT_AS(plugin_size_small, "load.struct-size", KC_AROUND, "kd_plugin.struct_size is an old draft's"),
    DEFECT_AS(slot_missing, "load.needed-slots", KC_AROUND, "device_close is NULL"),
    DEFECT_AS(name_invalid, "load.name-valid", KC_AROUND, "its name is \"Acme GPU!\""),
    DEFECT_AS(plugin_flag, "load.flags", KC_AROUND, "a flag that nobody defined is set"),
    DEFECT(filled_at_open, "load.table-const", "a slot is filled in open"),
    DEFECT_AS(no_reopen, "load.open-again", KC_AROUND, "static state is not reset by close"),
    DEFECT(tables_of_plugin, "load.open-again", "an op's tables are those of the first opening"),
    DEFECT(one_copy_only, "load.alongside", "a second copy in the process finds the first one's mark"),
    DEFECT(second_host_shared, "load.two-hosts", "a second host gets the first one's instance"),
    DEFECT(second_host_kept, "load.two-hosts", "the first host's calls are answered to the second"),
    DEFECT(file_name, "load.copy-and-rename", "it compares its file name"),
    DEFECT(kernels_file, "load.copy-and-rename", "its kernels are sought in the working directory, at the first launch"),
    DEFECT(needs_home, "load.bare-environment", "open needs a home that can be written"),
    DEFECT(option_crash, "load.options-unknown", "an option without a value is dereferenced"),
    DEFECT(option_sprintf, "load.options-unknown", "an option is put into 64 bytes"),
    DEFECT(option_number, "load.options-unknown", "a number that is none crashes device_open"),
    DEFECT(no_device_mute, "load.says-why-no-device", "no device, and no word why"),
    DEFECT(old_host_mute, "load.old-host", "an old host is refused without a message"),
    DEFECT_AS(forks, "load.no-fork", KC_AROUND, "open starts another process"),
};
/* clang-format on */

KC_AREA(load, "Loading and versions");
