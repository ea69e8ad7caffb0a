#include "tools/cli/help/completion.h"

namespace autotune::cli {

// Bash also splits words at '=' and ':'. So this script splits the line at spaces only, and removes the part before the last such
// character from each offered word.
std::string bash_completion() {
    return R"(# bash completion for autotune; printed by `autotune completion bash`
_autotune() {
  local line=${COMP_LINE:0:COMP_POINT} words=() lines=() reply now kept= word
  read -ra words <<<"$line"
  case $line in *[[:blank:]]) words+=('') ;; esac
  [ ${#words[@]} -gt 1 ] || return
  now=${words[${#words[@]}-1]}
  case $now in *[=:]*) kept=${now%"${now##*[=:]}"} ;; esac
  case $COMP_WORDBREAKS in *=*) ;; *) kept= ;; esac
  COMPREPLY=()
  mapfile -t lines < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
  for reply in "${lines[@]}"; do
    case $reply in
      :files) while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${now#"$kept"}"); compopt -o filenames 2>/dev/null ;;
      :folders) while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "${now#"$kept"}"); compopt -o filenames 2>/dev/null ;;
      :goes_on) compopt -o nospace 2>/dev/null ;;
      *) reply=${reply%%$'\t'*}; COMPREPLY+=("${reply#"$kept"}") ;;
    esac
  done
}
complete -F _autotune autotune
)";
}

std::string zsh_completion() {
    return R"(#compdef autotune
# zsh completion for autotune; printed by `autotune completion zsh`
_autotune() {
  local -a lines values texts ending
  local reply word paths=
  lines=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  for reply in "${lines[@]}"; do
    case $reply in
      '') ;;
      :files) paths=files ;;
      :folders) paths=folders ;;
      :goes_on) ending=(-S '') ;;
      *)
        word=${reply%%$'\t'*}
        values+=("$word")
        texts+=("$word  ${reply#*$'\t'}") ;;
    esac
  done
  (( $#values )) && compadd -Q -l -d texts "${ending[@]}" -a values
  case $paths in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [ "$funcstack[1]" = _autotune ]; then _autotune "$@"; else compdef _autotune autotune; fi
)";
}

}  // namespace autotune::cli
