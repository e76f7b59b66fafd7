//! The ServiceAccount of build and runner: it has no rights, and no token of it is mounted.

use famulus_crds::names::{Child, child};
use k8s_openapi::api::core::v1::ServiceAccount;

use super::{From, USER};

pub(super) fn write(from: From<'_>) -> ServiceAccount {
    let mut metadata = from.meta(child(&from.valid.object, Child::Identity));
    metadata.annotations = Some([(USER.to_owned(), from.user.to_string())].into());
    ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
