# bash completion for keel and keel-conformance: verbs, options, and what options take, as
# --help has them.
_keel() {
  local program=$1 word=$2 before=$3 verb= text i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { verb=${COMP_WORDS[i]}; break; }
  done
  case $before in
    --device)
      text=$(keel devices --json 2>/dev/null)
      mapfile -t COMPREPLY < <(compgen -W \
        "$(grep -oE '"[a-z0-9_-]+:[0-9]+"' <<<"$text" | tr -d '"')" -- "$word")
      return ;;
  esac
  if [[ $word == -* ]]; then
    text=$("$program" ${verb:+"$verb"} --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W \
      "$(grep -oE -- '--[a-z0-9][a-z0-9-]*' <<<"$text" | sort -u)" -- "$word")
  elif [[ -z $verb ]]; then
    text=$("$program" --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W \
      "$(sed -nE 's/^  ([a-z][a-z-]+)( [A-Z]+)*( |$).*/\1/p' <<<"$text")" -- "$word")
  fi
}
complete -o default -F _keel keel keel-conformance
