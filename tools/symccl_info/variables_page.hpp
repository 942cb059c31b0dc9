// The table of variables as text for people and as a page of the documentation.
#pragma once

#include <string>

namespace symccl::info {

/// Every variable with its value in this process, default, accepted values and meaning; then the names that start with
/// SYMCCL_ but are unknown. Secrets are not shown.
std::string variablesPage();
/// Whether every variable that is set has an accepted value.
bool variablesAreValid();
/// docs/variables.md, whole.
std::string variablesMarkdown();

}  // namespace symccl::info
