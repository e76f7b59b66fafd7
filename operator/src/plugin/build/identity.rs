//! The ServiceAccount of build and runner: it has no rights, and no token of it is mounted.

use famulus_crds::names::{Child, child};
use k8s_openapi::api::core::v1::ServiceAccount;

use super::{BuildInput, USER};

pub(super) fn write(input: BuildInput<'_>) -> ServiceAccount {
    let mut metadata = input.meta(child(&input.valid.object, Child::Identity));
    metadata.annotations = Some([(USER.to_owned(), input.user.to_string())].into());
    ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
