//! The volume claim for the plugin's revisions and files.

use famulus_crds::names::{Child, child};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{BuildInput, USER};

pub(super) fn write(input: BuildInput<'_>) -> PersistentVolumeClaim {
    let mut metadata = input.meta(child(&input.valid.object, Child::State));
    // The files on it belong to this user, whatever becomes of the ServiceAccount.
    metadata.annotations = Some([(USER.to_owned(), input.user.to_string())].into());
    let size = Quantity(input.pods.state_size.0.clone());
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: input.pods.storage_class.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
