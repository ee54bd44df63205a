/* elf.c - checks a library's headers before the dynamic linker maps it.
 *
 * The linker accepts a truncated file silently, and the process dies of SIGBUS later; so
 * every segment must lie inside the file (System V ABI, gABI chapters 4 and 5). */
#include <elf.h>

#include "loader/loader.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#elif defined(__riscv)
#define MACHINE EM_RISCV
#else
#define MACHINE EM_NONE
#endif

static const char *machine_name(unsigned machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "32-bit ARM";
    case EM_AARCH64:
      return "arm64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "PowerPC64";
    default:
      return "another machine";
  }
}

static keel_status elf_check_kind(const char *path, const keel_file *file,
                                  const char **out_hint) {
  const unsigned char *ident = file->data;
  *out_hint = "give a shared library (gcc -shared -fPIC)";
  if (file->size < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: not a shared library (no ELF header)", path);
  if (file->size < sizeof(Elf64_Ehdr))
    return keel_fail(KD_DATA_LOSS, "%s: truncated in the ELF header", path);
  const Elf64_Ehdr *head = (const void *)file->data;
  *out_hint = "build the plugin for this machine";
  if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB ||
      (MACHINE != EM_NONE && head->e_machine != MACHINE))
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: built for %s, and this machine is %s", path,
                     machine_name(head->e_machine), machine_name(MACHINE));
  *out_hint = "link it with -shared";
  if (head->e_type != ET_DYN)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: an ELF file, but not a shared library", path);
  return KD_OK;
}

static bool inside(const keel_file *file, uint64_t offset, uint64_t size) {
  return offset <= file->size && size <= file->size - offset;
}

static keel_status check_segments(const char *path, const keel_file *file) {
  const Elf64_Ehdr *head = (const void *)file->data;
  uint64_t count = head->e_phnum, at = head->e_phoff;
  if (head->e_phentsize != sizeof(Elf64_Phdr) || count == 0 ||
      !inside(file, at, count * sizeof(Elf64_Phdr)))
    return keel_fail(KD_DATA_LOSS,
                     "%s: truncated or damaged: the program headers lie outside"
                     " the file's %llu bytes",
                     path, (unsigned long long)file->size);
  bool dynamic = false;
  for (uint64_t i = 0; i < count; i++) {
    Elf64_Phdr segment;
    memcpy(&segment, file->data + at + i * sizeof segment, sizeof segment);
    dynamic |= segment.p_type == PT_DYNAMIC;
    if ((segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) &&
        !inside(file, segment.p_offset, segment.p_filesz))
      return keel_fail(
          KD_DATA_LOSS,
          "%s: truncated: segment %llu ends at byte %llu, the file"
          " at %llu",
          path, (unsigned long long)i,
          (unsigned long long)(segment.p_offset + segment.p_filesz),
          (unsigned long long)file->size);
  }
  /* Sections are not needed to run, but a whole file has them where its header
   * says; a cut that misses every segment still shows here. */
  if (head->e_shoff &&
      !inside(file, head->e_shoff, (uint64_t)head->e_shnum * head->e_shentsize))
    return keel_fail(KD_DATA_LOSS,
                     "%s: truncated: its section headers lie behind its end",
                     path);
  if (!dynamic)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: has no dynamic section", path);
  return KD_OK;
}

keel_status keel_elf_check(const char *path, const char **out_hint) {
  keel_file file = {0};
  *out_hint = "check the file's path and permissions";
  KEEL_TRY(keel_file_open(path, &file));
  keel_status status = elf_check_kind(path, &file, out_hint);
  if (status == KD_OK) {
    *out_hint = "copy or build the file again";
    status = check_segments(path, &file);
  }
  keel_file_close(&file);
  return status;
}
